// Requests. Each page has a twin with .json after its path; everything that is shown comes from there.

import { link, notify } from "./dom.js";

/** An answer that is an error: what happened, in words. */
export class Refusal extends Error {
  constructor(status, body) {
    super(body.error || `the server answered with status ${status}`);
    this.status = status;
    this.code = body.error_code ?? "";
    this.offset = body.offset;
  }
}

let isGone = false;

async function request(address, options) {
  let response;
  try {
    response = await fetch(address, { credentials: "same-origin", cache: "no-store", ...options });
  } catch (error) {
    if (error.name !== "AbortError") noteGone();
    throw error;
  }
  const text = await response.text();
  let body = {};
  try { body = JSON.parse(text); } catch { /* An empty answer says as much as its status. */ }
  if (response.status === 401 && body.error_code === "NotLoggedIn" && location.pathname !== "/log-in") {
    const then = location.pathname + location.search;
    dispatchEvent(new CustomEvent("go", { detail: link("/log-in", { then: then === "/" ? "" : then }) }));
  }
  if (!response.ok) throw new Refusal(response.status, body);
  return body;
}

/** What a page shows. */
export const get = (page, query = {}, signal = undefined) => request(link(`${page}.json`, query), { signal });

/** Has the server do something. */
export const post = (path, body = {}) => request(path, {
  method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json", "X-Inspector": "1" },
});

/** The server does not answer: says so, tries again, and shows the page anew when it does. */
async function noteGone() {
  if (isGone) return;
  isGone = true;
  notify("The server does not answer. This page comes back by itself when it does.", true);
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, 500));
    try {
      const response = await fetch("/session.json", { cache: "no-store" });
      if (response.ok) break;
    } catch { /* Not yet. */ }
  }
  isGone = false;
  notify("");
  dispatchEvent(new CustomEvent("again"));
}

/** Calls `look` every so many milliseconds while the page is shown and visible. */
export function repeat(milliseconds, signal, look) {
  const timer = setInterval(async () => {
    if (document.hidden || isGone) return;
    try { await look(); } catch { /* The next time will tell. */ }
  }, milliseconds);
  signal.addEventListener("abort", () => clearInterval(timer));
}
