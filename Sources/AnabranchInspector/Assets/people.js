// Clients of a file, sessions and users.

import { button, bytes, confirm, h, link, notify, number, readable, refill, timeElement, written, writtenPath } from "./dom.js";
import { get, post, repeat } from "./server.js";
import { frame } from "./files.js";
import { hue } from "./river.js";
import { asUser } from "./as.js";

const pageLength = 200;

/** A button that acts, where the configuration allows it. */
function acting(context, label, act, name) {
  return button(label, act, {
    class: "small", disabled: !context.session.writes, "aria-label": `${label}: ${name}`,
    title: context.session.writes ? null : "The configuration lets the inspector only look.",
  });
}

async function acted(work, said) {
  try { await work(); notify(said); } catch (refusal) { notify(refusal.message, true); }
}

export async function clients(context) {
  const path = context.get("path"), after = context.get("after");
  context.title(`Clients of ${readable(path)}`);
  const body = h("tbody"), foot = h("p", { class: "foot" });
  const { file } = await get("/file", { path }, context.signal);
  const look = async () => {
    const [answer, head] = await Promise.all([get("/clients", { path, after, limit: pageLength }, context.signal), get("/head", { path }, context.signal)]);
    refill(body, [answer, head], () => answer.clients.map((client) => row(context, client, head, file, path, look)));
    refill(foot, [answer.clients.length, answer.next], answer.clients.length === 0 && "No client has come yet.", answer.next && h("a", { href: context.here({ after: answer.next }) }, "Further ones"));
  };
  await look();
  repeat(3000, context.signal, look);
  return frame(context, "/clients",
    file.pinned_by && h("p", {}, "Most of the log is kept for client ", h("b", {}, file.pinned_by.client), `: ${bytes(file.pinned_by.bytes)} above version ${number(file.pinned_by.version)}.`),
    h("div", { class: "scroll" }, h("table", { class: "plain" }, h("caption", { class: "hidden" }, "Client files"), h("thead", {}, h("tr", {},
      ["Client", "User", "Last seen"].map((name) => h("th", {}, name)), ["Has seen", "Behind"].map((name) => h("th", { class: "n" }, name)),
      ["Release", "State"].map((name) => h("th", {}, name)), h("th", {}, h("span", { class: "hidden" }, "Action")))), body)), foot);
}

function row(context, client, head, file, path, look) {
  const expire = async () => {
    let trial;
    try { trial = await post("/expire", { path, client: client.client, dry_run: true }); } catch (refusal) { notify(refusal.message, true); return; }
    const agreed = await confirm(`Expire client ${client.client}?`, [
      "Its device is refused from now on, for ever: it starts over with a new file, and changes that it has not uploaded go through its recovery or are lost.",
      `${bytes(trial.bytes)} of log, ${number(trial.entries)} versions, could ${trial.keep === "archive" ? "move to the archive" : "go"} then.`], "Expire");
    if (agreed) await acted(async () => { await post("/expire", { path, client: client.client }); await look(); }, `Client ${client.client} has expired.`);
  };
  const queries = Object.entries(client.queries ?? {});
  return h("tr", {},
    h("td", {}, h("span", { class: `dot ${hue(client.client)}`, "aria-hidden": "true" }), ` ${client.client}`),
    h("td", {}, client.user ? [h("a", { href: link("/user", { user: client.user }) }, written(client.user)), " ", asUser(path, client.user, client.client)] : h("span", { class: "muted" }, "not known"),
      queries.length > 0 && h("details", {}, h("summary", {}, "asks for ", written(queries.map(([name]) => name).join(", "))),
        queries.map(([name, query]) => h("p", {}, written(name), ": ", h("code", {}, written(query)))))),
    h("td", {}, client.last_seen ? timeElement(client.last_seen * 1000) : "–"),
    h("td", { class: "n" }, `version ${number(client.server_version)}`), h("td", { class: "n" }, number(Math.max(0, head.version - client.server_version))),
    h("td", {}, client.release ?? h("span", { class: "muted" }, "not connected")),
    h("td", {}, client.expired ? h("span", { class: "badge" }, "expired") : file.pinned_by?.client === client.client ? h("span", { class: "badge merge" }, "keeps the log") : "",
      client.known_defects.map((defect) => h("span", { class: "badge" }, defect))),
    h("td", {}, !client.expired && acting(context, "Expire", expire, `client ${client.client}`)));
}

export async function sessions(context) {
  context.title("Sessions");
  const body = h("tbody"), foot = h("p", { class: "foot" }), after = context.get("after");
  const look = async () => {
    const answer = await get("/sessions", { after, limit: pageLength }, context.signal);
    refill(body, answer, () => answer.sessions.map((session) => h("tr", {},
      h("td", { class: "n" }, `${session.connection}.${session.session}`),
      h("td", { class: "name" }, h("a", { href: link("/file", { path: session.path }) }, writtenPath(session.path))),
      h("td", {}, session.user ? h("a", { href: link("/user", { user: session.user }) }, written(session.user)) : h("span", { class: "muted" }, "not known")),
      h("td", {}, session.client === 0 ? "–" : [h("span", { class: `dot ${hue(session.client)}`, "aria-hidden": "true" }), ` ${session.client}`]),
      h("td", {}, session.remote ? written(session.remote) : "–"), h("td", {}, session.release), h("td", {}, session.protocol),
      h("td", {}, acting(context, "Disconnect", async () => {
        const agreed = await confirm(`Disconnect session ${session.session}?`, ["Its client opens the session anew, and goes on where it was. Nothing is lost."], "Disconnect");
        if (agreed) await acted(async () => { await post("/disconnect", { connection: session.connection, session: session.session }); await look(); }, "Disconnected.");
      }, `session ${session.connection}.${session.session}`)))));
    refill(foot, [answer.sessions.length, answer.next], answer.sessions.length === 0 && "Nobody is connected.", answer.next && h("a", { href: context.here({ after: answer.next }) }, "Further ones"));
  };
  await look();
  repeat(3000, context.signal, look);
  return h("section", {}, h("div", { class: "tools" }, h("h1", {}, "Sessions")), h("div", { class: "scroll" }, h("table", { class: "plain" }, h("thead", {}, h("tr", {},
    h("th", { class: "n" }, "Session"), ["File", "User", "Client", "From", "Release", "Protocol"].map((name) => h("th", {}, name)), h("th", {}, h("span", { class: "hidden" }, "Action")))), body)), foot);
}

export async function users(context) {
  context.title("Users");
  const answer = await get("/users", { after: context.get("after"), limit: pageLength }, context.signal);
  return h("section", {}, h("div", { class: "tools" }, h("h1", {}, "Users")), h("div", { class: "scroll" }, h("table", { class: "plain" },
    h("thead", {}, h("tr", {}, ["User", "App", "Logs in as", "Since", "State"].map((name) => h("th", {}, name)))),
    h("tbody", {}, answer.users.map((user) => h("tr", {},
      h("td", {}, h("a", { href: link("/user", { user: user.user }) }, written(user.user))), h("td", {}, written(user.app)),
      h("td", {}, user.identities.map((each) => h("span", { class: "identity" }, h("small", {}, `${each.provider} `), written(each.name)))),
      h("td", {}, timeElement(user.created_at * 1000)), h("td", {}, user.disabled && h("span", { class: "badge" }, "disabled"))))))),
  h("p", { class: "foot" }, answer.users.length === 0 && "No app has users yet.", answer.next && h("a", { href: context.here({ after: answer.next }) }, "Further ones")));
}

export async function user(context) {
  const name = context.get("user");
  context.title(`User ${name}`);
  const data = await get("/user", { user: name }, context.signal), account = data.account;
  const change = (path, label, title, explanation, said) => acting(context, label, async () => {
    if (await confirm(title, explanation, label)) await acted(async () => { await post(path, { user: name }); context.go(context.here({})); }, said);
  }, name);
  return h("section", {}, h("nav", { class: "crumbs", "aria-label": "Place" }, h("a", { href: "/users" }, "Users"), h("span", { "aria-hidden": "true" }, "/"), h("h1", {}, written(name))),
    account ? h("div", {}, h("dl", { class: "facts" }, [["App", written(account.app)], ["Since", timeElement(account.created_at * 1000)], ["State", account.disabled ? "disabled" : "may log in"],
      ["Logs in as", account.identities.map((each) => h("span", { class: "identity" }, h("small", {}, `${each.provider} `), written(each.name)))],
      ["Custom data", h("code", {}, written(JSON.stringify(account.data)))]].map(([term, value]) => [h("dt", {}, term), h("dd", {}, value)])),
    h("p", { class: "buttons" },
      change("/revoke", "End the log-ins", `End the log-ins of ${name}?`, ["The user's connections are closed, and the apps have to log in again. What devices have not uploaded stays there until they do."], "The log-ins are over."),
      account.disabled ? change("/enable", "Enable", `Enable ${name}?`, ["The user may log in again."], "Enabled.")
        : change("/disable", "Disable", `Disable ${name}?`, ["The log-ins end, and the user may not log in again until somebody enables the user."], "Disabled.")))
      : h("p", { class: "muted" }, "There is no account with this ident: the user came without one, or it was deleted."),
    h("h2", {}, "Files"), data.files.length === 0 && h("p", { class: "muted" }, "The user takes part in no file."),
    h("div", { class: "scroll" }, h("table", { class: "plain" }, h("tbody", {}, data.files.map((file) => h("tr", {},
      h("td", { class: "name" }, h("a", { href: link("/file", { path: file.path }) }, writtenPath(file.path)), " ", asUser(file.path, name)),
      h("td", { class: "n" }, `${number(file.clients_of_user)} of the user's`), h("td", { class: "n" }, `${number(file.other_clients)} of others`)))))));
}
