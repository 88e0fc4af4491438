// Elements of the page. Text is only ever set as text: nothing that is served becomes markup.

/** Makes an element: properties are attributes, `on...` listeners, `class`, or `text`; children are nodes or texts. */
export function el(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "text") node.textContent = value;
    else if (name === "value" || name === "checked") node[name] = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  return put(node, ...children);
}

/** Replaces what an element contains; null and false are left out. */
export function fill(node, ...children) {
  node.replaceChildren(...shownOf(children));
  return node;
}

/** Adds to what an element contains; null and false are left out. */
export function put(node, ...children) {
  node.append(...shownOf(children));
  return node;
}

function shownOf(children) {
  return children.flat().filter((c) => c !== null && c !== undefined && c !== false);
}

/** Says something to whoever looks or listens. */
export function announce(message, isError = false) {
  const status = document.getElementById("status");
  status.textContent = message;
  status.classList.toggle("error", isError);
}

/** Runs what a button does; an error is announced, and the button cannot be pressed meanwhile. */
export function action(label, run, properties = {}) {
  const button = el("button", { type: "button", ...properties, text: label });
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      await run(button);
    } catch (error) {
      announce(error.message, true);
    } finally {
      button.disabled = false;
    }
  });
  return button;
}

/** A field with its label. */
export function field(label, input, help = "") {
  const id = input.id || `f-${label.toLowerCase().replace(/[^a-z]+/g, "-")}`;
  input.id = id;
  const hint = help ? el("small", { id: `${id}-help`, text: help }) : null;
  if (hint) input.setAttribute("aria-describedby", hint.id);
  const name = el("label", { for: id, text: label });
  return input.type === "checkbox" ? el("div", { class: "field check" }, input, name, hint) : el("div", { class: "field" }, name, input, hint);
}

/** The day of a time in ISO 8601, as people of this place write it; `unknown` without one. */
export function day(time) {
  return time ? new Date(time.slice(0, 10)).toLocaleDateString(undefined, { dateStyle: "medium", timeZone: "UTC" }) : "unknown";
}

/** A text with the words of a question marked; words of up to three letters are not. */
export function marked(text, question) {
  const words = new Set((question.toLowerCase().match(/[\p{L}\p{N}]{4,}/gu) ?? []).map(stem));
  const parts = text.split(/([\p{L}\p{N}]+)/u);
  return parts.map((part) => (words.has(stem(part.toLowerCase())) ? el("mark", { text: part }) : part));
}

function stem(word) {
  return word.replace(/(?<=[\p{L}\p{N}]{3})(ings?|ed|es|s)$/u, "");
}

/** Returns what gives the value of a color of page.css now, by its name. */
export function colors() {
  const css = getComputedStyle(document.documentElement);
  return (name) => css.getPropertyValue(name).trim();
}
