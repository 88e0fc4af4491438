import { el, field, put } from "../dom.js";

/** Shows a field for a token; `signedIn` gets what is entered. */
export function signIn(main, signedIn) {
  const token = el("input", { type: "password", autocomplete: "off", required: true, spellcheck: "false" });
  const form = el("form", { class: "card narrow" },
    el("h2", { text: "Sign in" }),
    field("Token", token, "Your identity provider gives you one. For development: palimpsest serve token --user NAME"),
    el("button", { type: "submit", text: "Sign in" }));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (token.value.trim()) signedIn(token.value.trim());
  });
  put(main, form);
  token.focus();
}
