// The frame of all pages: which address shows which page, and what is above them.

import { button, fill, h, keepView, link, notify } from "./dom.js";
import { post, Refusal } from "./server.js";
import * as overview from "./overview.js";
import * as files from "./files.js";
import * as objects from "./objects.js";
import * as object from "./object.js";
import * as history from "./history.js";
import * as version from "./version.js";
import * as people from "./people.js";

const pages = {
  "/": overview.page, "/files": files.list, "/file": files.page, "/objects": objects.page, "/object": object.page,
  "/history": history.page, "/edits": history.edits, "/version": version.page, "/diff": version.diff, "/clients": people.clients,
  "/sessions": people.sessions, "/users": people.users, "/user": people.user, "/log-in": logIn,
  // Few look at it, so it is not part of the first view.
  "/world": async (context) => (await import("./world.js")).page(context),
};

const main = document.getElementById("main"), bar = document.getElementById("bar");
let session = { logged_in: false }, ending = new AbortController();

function drawBar() {
  const places = session.plays ? [["/world", "World"]] : [["/", "Overview"], ["/files", "Files"], ["/sessions", "Sessions"], ["/users", "Users"], ["/world", "World"]];
  const filePages = ["/file", "/objects", "/object", "/history", "/edits", "/version", "/diff", "/clients"];
  const here = filePages.includes(location.pathname) ? "/files" : location.pathname === "/user" ? "/users" : location.pathname;
  fill(bar,
    h("a", { class: "brand", href: "/" }, h("svg", { viewBox: "0 0 20 20", width: 18, height: 18, class: "mark", "aria-hidden": "true" },
      h("path", { d: "M5 2v16" }), h("path", { class: "arm", d: "M5 4c0 4 9 2 9 6s-9 2-9 6" })), "Anabranch"),
    session.logged_in && h("nav", { "aria-label": "Pages" }, places.map(([place, name]) =>
      h("a", { href: place, "aria-current": place === here ? "page" : null }, name))),
    h("span", { class: "gap" }),
    session.logged_in && !session.plays && h("span", { class: "rights", title: session.writes ? "The configuration lets the inspector act." : "The inspector only looks." },
      session.writes ? "read and write" : "read only"),
    session.user && h("a", { class: "rights", href: link("/user", { user: session.user }) }, `user ${session.user}`),
    session.logged_in && !session.plays && button("Log out", logOut, { class: "quiet" }));
}

async function logOut() {
  const answer = await post("/log-out");
  await begin();
  if (answer.remembered === false) notify("Logged out in this browser, but the server cannot write that down: after its next start, the old cookie would count again.", true);
  go("/log-in");
}

/** Shows the page of an address. */
export function go(address, { replaces = false } = {}) {
  if (replaces) window.history.replaceState(null, "", address);
  else window.history.pushState(null, "", address);
  show();
}

async function show({ keepsFocus = false } = {}) {
  ending.abort();
  ending = new AbortController();
  if (!session.logged_in && location.pathname !== "/log-in") {
    const then = location.pathname + location.search;
    window.history.replaceState(null, "", link("/log-in", { then: then === "/" ? "" : then }));
  }
  // A simulation that is played has no server to look into.
  if (session.plays && location.pathname !== "/world") window.history.replaceState(null, "", "/world");
  const signal = ending.signal, place = location.pathname, query = new URLSearchParams(location.search);
  keepView(query.get("path"), query.get("as"), query.get("client"));
  drawBar();
  main.setAttribute("aria-busy", "true");
  const context = {
    query, signal, go, session,
    get: (name) => query.get(name) ?? "",
    /** The address of this page with some parts changed. */
    here: (changes) => {
      const next = new URLSearchParams(query);
      for (const [name, value] of Object.entries(changes)) {
        if (value === null || value === undefined || value === "") next.delete(name);
        else next.set(name, value);
      }
      return link(place, Object.fromEntries(next));
    },
    replace: (changes) => window.history.replaceState(null, "", context.here(changes)),
    title: (text) => { document.title = `${text} · Anabranch`; },
  };
  let content;
  try {
    content = await (pages[place] ?? missing)(context);
  } catch (error) {
    if (signal.aborted || error.name === "AbortError") return;
    if (error instanceof Refusal && error.status === 401 && error.code === "NotLoggedIn") return;
    content = failure(error);
  }
  if (signal.aborted) return;
  fill(main, content);
  main.removeAttribute("aria-busy");
  main.dataset.page = place;
  if (!keepsFocus) {
    main.focus({ preventScroll: true });
    scrollTo(0, 0);
  }
  try {
    await content?.started?.();
  } catch (error) {
    if (!signal.aborted) fill(main, failure(error));
  }
}

/** A page that failed says what happened and what to do. */
function failure(error) {
  const gone = error instanceof TypeError && !(error instanceof Refusal);
  const advice = {
    NotFound: "The link may be old: the list of files shows what there is.",
    NoSuchVersion: "Choose a version that is still known.", NoSuchClass: "The class may have been added later, or erased.", NoSuchUser: "An ident is meant, as the list of users has it.",
    TooLarge: "The commands of anabranch have no such limit.", Unavailable: "The server's log says why.", Store: "The server's log says why.",
  }[error.code] ?? "";
  return h("section", { class: "failure", role: "alert" },
    h("h1", {}, gone ? "The server does not answer" : "This page cannot be shown"),
    h("p", {}, gone ? "It comes back by itself when the server does." : error.message), advice && h("p", { class: "muted" }, advice),
    h("p", {}, button("Try again", () => show()), " ", h("a", { href: "/files" }, "All files")));
}

const missing = async () => h("section", { class: "failure" }, h("h1", {}, "There is no such page"), h("p", {}, h("a", { href: "/" }, "To the overview")));

async function logIn(context) {
  context.title("Log in");
  if (session.logged_in) { go(context.get("then") || "/", { replaces: true }); return ""; }
  const field = (id, label, properties, help) => [h("label", { for: id }, label),
    h("input", { id, name: id, required: true, spellcheck: "false", "aria-describedby": help ? `${id}-help ${id}-error` : `${id}-error`, ...properties })];
  const form = (fields, body, errorID, ...rest) => {
    const error = h("p", { class: "error", id: errorID, role: "alert" });
    return h("form", {
      class: "login", onsubmit: async (event) => {
        event.preventDefault();
        error.textContent = "";
        const value = (id) => event.target.elements[id].value;
        try {
          await post("/log-in", body(value));
        } catch (refusal) {
          error.textContent = refusal.message;
          event.target.querySelector("input[type=password]").select();
          return;
        }
        await begin();
        const then = context.get("then");
        go(then.startsWith("/") && !then.startsWith("//") ? then : "/", { replaces: true });
      },
    }, fields, rest, error, h("button", { type: "submit", class: "primary" }, "Log in"));
  };
  const byToken = form([h("h1", {}, "Log in"), field("token", "Token of the admin interface", { type: "password", autocomplete: "current-password" }, true)],
    (value) => ({ token: value("token").trim() }), "token-error",
    h("p", { class: "muted", id: "token-help" }, "It is in the file ", h("code", {}, "admin-token"), " of the server's data directory."));
  const byPassword = session.takes_users && form([h("h2", {}, "Or as a user with the right"), field("email", "E-mail address", { type: "email", autocomplete: "username", inputmode: "email" }),
    field("password", "Password", { type: "password", autocomplete: "current-password", "aria-describedby": "email-error" })],
  (value) => ({ username: value("email").trim(), password: value("password") }), "email-error");
  const content = h("div", {}, byToken, byPassword);
  content.started = () => content.querySelector("#token").focus();
  return content;
}

async function begin() {
  try {
    const response = await fetch("/session.json", { cache: "no-store" });
    session = await response.json();
  } catch { notify("The server does not answer.", true); }
}

addEventListener("click", (event) => {
  const anchor = event.target.closest?.("a[href]");
  if (!anchor || event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const address = new URL(anchor.getAttribute("href"), location.href);
  if (address.origin !== location.origin || !(address.pathname in pages) || anchor.hasAttribute("target") || anchor.hasAttribute("download")) return;
  if (anchor.getAttribute("href").startsWith("#")) return;
  event.preventDefault();
  go(address.pathname + address.search);
});
addEventListener("popstate", () => show());
// Whoever leaves a page abandons what it has asked for.
addEventListener("unhandledrejection", (event) => { if (event.reason?.name === "AbortError") event.preventDefault(); });
addEventListener("go", async (event) => { session.logged_in = false; await begin(); go(event.detail, { replaces: true }); });
addEventListener("again", async () => { await begin(); show({ keepsFocus: true }); });
addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.target.closest("input, textarea, select")) return;
  const search = main.querySelector("input[type=search]");
  if (search) { event.preventDefault(); search.focus(); }
});

await begin();
show();
