import { el, field, put } from "../dom.js";

/** Shows a field for a token; `signedIn` gets what is entered. `refusal` says why the one before was refused. */
export function signIn(main, signedIn, refusal = "") {
  const token = el("input", { type: "password", autocomplete: "off", required: true, spellcheck: "false" });
  const box = field("Token", token, "Your identity provider gives you one. For development: palimpsest serve token --user NAME");
  if (refusal) {
    const error = el("p", { class: "error", id: "token-error", role: "alert", text: refusal });
    token.setAttribute("aria-describedby", `${error.id} ${token.getAttribute("aria-describedby")}`);
    token.setAttribute("aria-invalid", "true");
    token.after(error);
  }
  const form = el("form", { class: "card narrow" },
    el("h2", { text: "Sign in" }),
    box,
    el("button", { type: "submit", text: "Sign in" }));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (token.value.trim()) signedIn(token.value.trim());
  });
  put(main, form);
  token.focus();
}
