// Where a token is needed: it is traded for a cookie that no script can read, and kept nowhere else.

import { post } from "../api.js";
import { h, replace } from "../dom.js";
import { stored } from "../tools.js";

/** `error` is what was answered to who is not logged in. Without a token that is for programs, and says nothing here. */
export function login(root, error, done) {
  const why = error.status === 403 ? error.message : stored("in") ? "The login has ended; log in again." : "";
  const field = h("input", { type: "password", name: "token", id: "token", autocomplete: "off", required: true, placeholder: "tachograph_…" });
  const told = h("p", { class: "wrong", role: "alert" }, why);
  const submit = async (event) => {
    event.preventDefault();
    try {
      await post("login", { token: field.value });
      stored("in", "yes");
      document.getElementById("leave").hidden = false;
      field.value = "";
      done();
    } catch (error) {
      told.textContent = error.message;
      field.focus();
    }
  };
  replace(root, h("form", { class: "login", on: { submit } },
    h("h1", null, "Log in"),
    h("p", null, "This collector asks for a token. One that may read will do: ", h("code", null, "tachograph token create NAME --scope read"), "."),
    h("label", { for: "token" }, "Token"), field, h("button", { class: "main" }, "Log in"), told));
  field.focus();
}
