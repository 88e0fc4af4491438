// Fields of a form for the query parameters of an endpoint, made of what the service says of them in its OpenAPI document.

import { api } from "./api.js";
import { el, field } from "./dom.js";

let openapi = null;

/** Returns the schemas of the query parameters of an endpoint by name, in their order. */
export async function parametersOf(path) {
  openapi ??= await api.openapi();
  return new Map(openapi.paths[path].get.parameters.map(({ name, schema }) => [name, schema]));
}

/**
 * Makes the field of a parameter. `given` has its values, as texts; `choices` the values to choose from, where the caller knows them.
 * Returns the `element`, and `values`, which returns what to send: nothing where it is the default.
 */
export function option(name, schema, given, choices = null) {
  const kinds = (schema.anyOf ?? [schema]).filter((kind) => kind.type !== "null");
  const [kind] = kinds;
  const said = { label: name[0].toUpperCase() + name.slice(1).replaceAll("_", " "), help: schema.description ?? "" };
  const [first = schema.default ?? ""] = given;
  const [example = ""] = schema.examples ?? [];
  if (kind.type === "boolean") return yesOrNo(said, String(first) === "true", schema.default);
  if (kind.type === "array") return kind.items.enum ? several(said, kind.items.enum, given) : lines(said, given);
  if (kind.enum ?? choices) {
    const input = select(kind.enum ?? ["", ...choices]);
    input.value = first;
    return one(said, input, schema.default);
  }
  if (kind.type === "integer" || kind.type === "number") {
    const step = kind.type === "integer" ? 1 : "any";
    return one(said, el("input", { type: "number", min: kind.minimum, max: kind.maximum, step, value: first }), schema.default);
  }
  const isDay = kinds.some((k) => k.format === "date");
  const attributes = isDay ? { type: "date" } : { type: "text", maxlength: kind.maxLength, placeholder: example };
  return one(said, el("input", { ...attributes, value: first }), schema.default);
}

/** Makes a select of values; an empty one means all. */
export function select(values, name = (value) => value || "all") {
  return el("select", {}, values.map((value) => el("option", { value, text: name(value) })));
}

function one({ label, help }, input, standard = "") {
  return { element: field(label, input, help), values: () => [input.value].filter((v) => v !== "" && v !== String(standard)) };
}

function yesOrNo({ label, help }, checked, standard) {
  const input = el("input", { type: "checkbox", checked });
  return { element: field(label, input, help), values: () => (input.checked === standard ? [] : [String(input.checked)]) };
}

function lines({ label, help }, given) {
  const input = el("textarea", { rows: 1, value: given.join("\n") });
  const element = field(label, input, `${help}; one a line`);
  return { element, values: () => input.value.split("\n").map((v) => v.trim()).filter(Boolean) };
}

function several({ label, help }, values, given) {
  const inputs = values.map((value) => el("input", { type: "checkbox", value, checked: given.includes(value) }));
  const element = el("fieldset", { class: "field" }, el("legend", { text: label }),
    inputs.map((input) => el("label", {}, input, input.value)), el("small", { text: help }));
  return { element, values: () => inputs.filter((input) => input.checked).map((input) => input.value) };
}
