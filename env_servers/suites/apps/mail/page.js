// Mail: a webmail (folders, labels, search, reading, writing) and, under the other tab, a forum.
"use strict";

const FOLDERS = ["Inbox", "Archive", "Sent", "Spam", "Bin"];
const mailOf = (state, id) => find(state.mails, (mail) => mail.id === id, `mail ${id}`);
const threadOf = (state, id) => find(state.threads, (thread) => thread.id === id, `thread ${id}`);
const folderAt = (folder) => ({ page: "folder", folder });
const act = (how) => () => app.change(how);

function listed(state) {
  const { folder } = state.at;
  const words = state.query.toLowerCase().split(/\s+/).filter(Boolean);
  return state.mails.filter((mail) => {
    if (words.length) {
      const text = [mail.from, mail.to ?? "", mail.subject, ...mail.lines].join(" ").toLowerCase();
      return words.every((word) => text.includes(word));
    }
    return folder.startsWith("#") ? mail.labels.includes(folder.slice(1)) : mail.folder === folder;
  });
}

function openFolder(state, folder) {
  Object.assign(state, { query: "", typed: "", menu: "" });
  go(state, folderAt(folder));
}
function openMail(state, id) {
  Object.assign(mailOf(state, id), { unread: false, marked: false });
  state.menu = "";
  go(state, { page: "mail", id });
}
function move(state, mail, folder) {
  mail.folder = folder;
  openFolder(state, "Inbox");
  state.toast = `Moved to ${folder}`;
}
function search(state, text) {
  Object.assign(state, { query: text.trim(), typed: text.trim(), menu: "" });
  go(state, folderAt("Inbox"));
}
function write(state, kind, mail) {
  const prefix = { new: "", reply: "Re: ", forward: "Fwd: " }[kind];
  state.draft = { kind, about: mail ? mail.id : -1, to: kind === "reply" ? mail.address : "", subject: mail ? prefix + mail.subject : "", text: "" };
  state.menu = "";
  go(state, { page: "write" });
}
function post(state, { kind, about, to, subject, text }) {
  if (!/^\S+@\S+\.\S+$/.test(to.trim())) throw Error("the receiver is no mail address");
  if (kind !== "forward" && !text.trim()) throw Error("the mail has no text");
  const source = kind === "forward" ? mailOf(state, about) : null;
  state.mails = [{
    id: Math.max(...state.mails.map((mail) => mail.id)) + 1, from: "Me", address: state.me, to: to.trim(), kind, about,
    subject: subject.trim() || "(no subject)", lines: text.trim() ? text.trim().split("\n") : [], date: "today", folder: "Sent",
    unread: false, marked: false, starred: false, labels: [], files: source ? source.files : [], amount: "",
  }, ...state.mails];
}
// What was being written is done with: no way leads back to it.
function leave(state, what, page) {
  state[what] = null;
  state.past = state.past.filter((at) => at.page !== page);
  back(state);
}
function send(state) {
  try {
    post(state, state.draft);
  } catch (error) {
    state.dialog = { icon: "error", title: "Not sent", text: `Sorry, ${error.message}.`, ok: "OK" };
    return;
  }
  leave(state, "draft", "write");
  state.toast = "Message sent";
}
function save(state, mail, file) {
  const name = `${mail.from}: ${file.name}`;
  if (!state.saved.includes(name)) state.saved = [...state.saved, name];
  state.toast = `Saved ${file.name}`;
}
function vote(one) {
  one.voted = !one.voted;
  one.votes += one.voted ? 1 : -1;
}
function answerThread(state, thread, text) {
  if (!text.trim()) throw Error("the post has no text");
  thread.posts = [...thread.posts, { author: "Me", text: text.trim(), votes: 0, voted: false }];
}
function publish(state, { title, text, board }) {
  const lacking = !title.trim() ? "a title" : !text.trim() ? "a text" : !board ? "a board" : "";
  if (lacking) throw Error(`the thread lacks ${lacking}`);
  const id = state.threads.length;
  state.threads = [{ id, title: title.trim(), text: text.trim(), author: "Me", board, votes: 0, voted: false, posts: [] }, ...state.threads];
  return id;
}
const openForum = (state) => {
  Object.assign(state, { menu: "", post: "" });
  go(state, { page: "forum" });
};
const openThread = (state, id) => {
  state.post = "";
  go(state, { page: "thread", id });
};
const openStart = (state) => {
  state.start = { title: "", text: "", board: "" };
  go(state, { page: "start" });
};

// --- what is drawn ---------------------------------------------------------------------------------------------------
function bar(state) {
  const forum = ["forum", "thread", "start"].includes(state.at.page);
  return h("header", { class: "bar" },
    h("span", { class: "brand" }, state.layout.brand),
    entry("search box", state.typed, (text) => (app.now().typed = text), {
      placeholder: "Search mail",
      onkeydown: enter(act((now) => search(now, now.typed))),
    }),
    h("button", { name: "search", class: "press", onclick: act((now) => search(now, now.typed)) }, "Search"),
    press("mail tab", "Mail", act((now) => openFolder(now, "Inbox")), forum ? "plain" : "plain on"),
    press("forum tab", "Forum", act(openForum), forum ? "plain on" : "plain"),
    h("span", { class: "me" }, "M"),
  );
}

function side(state) {
  const unread = (folder) => state.mails.filter((mail) => mail.folder === folder && mail.unread).length;
  const line = (name, text, folder, count) =>
    h("button", { name, class: `folder ${state.at.page === "folder" && state.at.folder === folder && !state.query ? "on" : ""}`, onclick: act((now) => openFolder(now, folder)) },
      h("span", { class: "cut" }, text), count ? h("span", { class: "count" }, String(count)) : null);
  return h("nav", { class: "side" },
    press("compose", "Compose", act((now) => write(now, "new")), "main"),
    FOLDERS.map((folder) => line(`${folder} folder`, folder, folder, folder === "Sent" ? 0 : unread(folder))),
    h("div", { class: "muted head" }, "Labels"),
    state.labels.map((label) => line(`${label} label`, `# ${label}`, `#${label}`, 0)),
  );
}

function folderPage(state) {
  const mails = listed(state);
  const title = state.query ? `Results for "${state.query}"` : state.at.folder.replace("#", "Label ");
  return [
    h("div", { class: "title" }, title, h("span", { class: "muted" }, ` ${mails.length} mail${mails.length === 1 ? "" : "s"}`)),
    h("div", { class: "rows", "data-main": "" }, mails.map((mail) => {
      const who = mail.folder === "Sent" ? `To: ${mail.to}` : mail.from;
      const called = mail.folder === "Sent" ? `sent mail ${mail.id}` : `mail from ${mail.from}`;
      return h("div", { class: `row ${mail.unread ? "unread" : ""}` },
        h("button", { name: mail.folder === "Sent" ? `star of ${mail.id}` : `star of ${mail.from}`, class: `star ${mail.starred ? "on" : ""}`, onclick: act((now) => {
          const one = mailOf(now, mail.id);
          one.starred = !one.starred;
        }) }, mail.starred ? "\u2605" : "\u2606"),
        h("button", { name: called, class: "open", onclick: act((now) => openMail(now, mail.id)) },
          h("span", { class: "who cut" }, who),
          h("span", { class: "what cut" }, mail.subject, h("span", { class: "muted" }, ` \u2013 ${mail.lines[0] ?? ""}`)),
          h("span", { class: "tags" }, mail.labels.map((label) => h("span", { class: "tag" }, label)), mail.files.length ? h("span", { class: "tag" }, "file") : null),
          h("span", { class: "muted date" }, mail.date)));
    }), mails.length ? null : h("div", { class: "muted empty" }, "Nothing here")),
  ];
}

function mailPage(state) {
  const mail = mailOf(state, state.at.id);
  const on = (how) => act((now) => how(now, mailOf(now, mail.id)));
  const spam = mail.folder === "Spam";
  const tools = mail.folder === "Sent" ? [] : [
    mail.folder === "Inbox" ? press("archive", "Archive", on((now, one) => move(now, one, "Archive"))) : press("to inbox", spam ? "Not spam" : "To inbox", on((now, one) => move(now, one, "Inbox"))),
    spam ? null : press("spam", "Spam", on((now, one) => move(now, one, "Spam"))),
    mail.folder === "Bin" ? null : press("delete", "Delete", on((now, one) => move(now, one, "Bin"))),
    press("mark unread", "Mark unread", on((now, one) => {
      Object.assign(one, { unread: true, marked: true });
      openFolder(now, one.folder);
    })),
    h("div", { class: "holder" },
      press("labels", "Labels \u25be", on((now) => (now.menu = now.menu ? "" : "labels"))),
      state.menu !== "labels" ? null : h("div", { class: "menu" }, state.labels.map((label) =>
        h("button", { name: `${label} choice`, class: "item", onclick: on((now, one) => {
          one.labels = one.labels.includes(label) ? one.labels.filter((other) => other !== label) : [...one.labels, label].sort();
          now.menu = "";
        }) }, `${mail.labels.includes(label) ? "\u2713" : "\u2003"} ${label}`)))),
  ];
  return [
    h("div", { class: "tools" }, press("back", "\u2190 Back", act(back)), tools),
    h("div", { class: "sheet", "data-main": "" },
      h("h2", {}, mail.subject, mail.labels.map((label) => h("span", { class: "tag" }, label))),
      h("div", { class: "by" }, h("span", { class: "face" }, mail.from[0]),
        h("div", {}, h("b", {}, mail.from), h("span", { class: "muted" }, ` <${mail.address}>`), h("div", { class: "muted" }, mail.to ? `to ${mail.to}` : `to ${state.me}`)),
        h("span", { class: "muted date" }, mail.date)),
      mail.lines.map((line) => h("p", {}, line)),
      mail.files.map((file) => h("div", { class: "file" }, h("b", {}, file.name), h("span", { class: "muted" }, file.size), press("save file", "Save to files", on((now, one) => save(now, one, file))))),
      mail.folder === "Sent" ? null : h("div", { class: "ends" }, press("reply", "Reply", on((now, one) => write(now, "reply", one)), "main"), press("forward", "Forward", on((now, one) => write(now, "forward", one))))),
  ];
}

function writePage(state) {
  const draft = state.draft;
  const put = (field) => (text) => (app.now().draft[field] = text);
  const quoted = draft.kind === "forward" ? mailOf(state, draft.about) : null;
  return [
    h("div", { class: "title" }, { new: "New message", reply: "Reply", forward: "Forward" }[draft.kind]),
    h("div", { class: "sheet form", "data-main": "" },
      h("label", {}, "To", entry("receiver box", draft.to, put("to"), { placeholder: "name@post.example" })),
      h("label", {}, "Subject", entry("subject box", draft.subject, put("subject"))),
      entry("text box", draft.text, put("text"), { tall: true, rows: quoted ? 5 : 10, placeholder: "Write your message" }),
      quoted ? h("div", { class: "quote" }, h("div", { class: "muted" }, `Forwarded from ${quoted.from}`), quoted.lines.map((line) => h("div", {}, line)), quoted.files.map((file) => h("b", {}, file.name))) : null,
      h("div", { class: "ends" }, press("send", "Send", act(send), "main"), press("discard", "Discard", act((now) => {
        leave(now, "draft", "write");
      })))),
  ];
}

function voter(name, one, find) {
  return h("button", { name, class: `vote ${one.voted ? "on" : ""}`, onclick: act((now) => vote(find(now))) }, "\u25b2", h("b", {}, String(one.votes)));
}

function forumPage(state) {
  return [
    h("div", { class: "title" }, "Community forum", press("new thread", "New thread", act(openStart), "main")),
    h("div", { class: "rows threads", "data-main": "" }, state.threads.map((thread) =>
      h("div", { class: "thread" }, voter(`vote of ${thread.title}`, thread, (now) => threadOf(now, thread.id)),
        h("button", { name: `thread ${thread.title}`, class: "open", onclick: act((now) => openThread(now, thread.id)) },
          h("b", { class: "cut" }, thread.title),
          h("span", { class: "muted" }, `${thread.board} \u00b7 by ${thread.author} \u00b7 ${thread.posts.length} post${thread.posts.length === 1 ? "" : "s"}`))))),
  ];
}

function threadPage(state) {
  const thread = threadOf(state, state.at.id);
  const reply = act((now) => {
    try {
      answerThread(now, threadOf(now, thread.id), now.post);
      now.post = "";
    } catch (error) {
      now.dialog = { icon: "error", title: "Not posted", text: `Sorry, ${error.message}.`, ok: "OK" };
    }
  });
  return [
    h("div", { class: "tools" }, press("back", "\u2190 Back", act(back)), h("span", { class: "muted" }, thread.board)),
    h("div", { class: "sheet", "data-main": "" },
      h("div", { class: "opening" }, voter("vote of the thread", thread, (now) => threadOf(now, thread.id)),
        h("div", {}, h("h2", {}, thread.title), h("div", { class: "muted" }, `by ${thread.author}`), h("p", {}, thread.text))),
      thread.posts.map((one, k) => h("div", { class: "post" }, one.author === "Me" ? h("span", { class: "vote" }, "\u2013") : voter(`vote of ${one.author}`, one, (now) => threadOf(now, thread.id).posts[k]),
        h("div", {}, h("b", {}, one.author), h("div", {}, one.text)))),
      h("div", { class: "answer" }, entry("post box", state.post, (text) => (app.now().post = text), { tall: true, rows: 2, placeholder: "Write a post" }), press("post", "Post", reply, "main"))),
  ];
}

function startPage(state) {
  const put = (field) => (text) => (app.now().start[field] = text);
  const done = act((now) => {
    try {
      const id = publish(now, now.start);
      leave(now, "start", "start");
      openThread(now, id);
    } catch (error) {
      now.dialog = { icon: "error", title: "Not published", text: `Sorry, ${error.message}.`, ok: "OK" };
    }
  });
  return [
    h("div", { class: "title" }, "New thread"),
    h("div", { class: "sheet form", "data-main": "" },
      h("label", {}, "Title", entry("title box", state.start.title, put("title"))),
      h("label", {}, "Board", choice("board list", ["", ...state.boards], state.start.board, (board) => app.change((now) => (now.start.board = board)))),
      entry("text box", state.start.text, put("text"), { tall: true, rows: 8, placeholder: "What is it about?" }),
      h("div", { class: "ends" }, press("publish", "Publish", done, "main"), press("cancel", "Cancel", act((now) => leave(now, "start", "start"))))),
  ];
}

const PAGES = { folder: folderPage, mail: mailPage, write: writePage, forum: forumPage, thread: threadPage, start: startPage };
const popup = dialogs(() => app.change((now) => (now.dialog = null)));
const byWho = (state, sender) => find(state.mails, (mail) => mail.from === sender && mail.folder !== "Sent", `mail from ${sender}`);
const byTitle = (state, title) => find(state.threads, (thread) => thread.title === title, `thread ${title}`);
let root = null;

const app = mount({
  notch: 3,
  start: (node) => (root = node),
  ready: popup.ready,
  read: readScroll,
  show(state) {
    dress(root, state.layout);
    const forum = ["forum", "thread", "start"].includes(state.at.page);
    root.replaceChildren(
      bar(state),
      h("div", { class: `body ${state.layout.side} ${state.layout.rows}` }, forum ? null : side(state), h("main", {}, PAGES[state.at.page](state))),
      state.toast ? h("div", { class: "toast" }, state.toast) : "",
    );
    showScroll(state);
    popup.show(state.dialog);
  },
  button(state, name) {
    if (name !== "Back") return;
    if (state.menu) state.menu = "";
    else back(state);
  },
  goto(state, url) {
    const [, part, rest] = pathOf(url).split("/");
    const folder = FOLDERS.find((name) => name.toLowerCase() === part.toLowerCase());
    if (folder || !part) openFolder(state, folder ?? "Inbox");
    else if (part === "forum") openForum(state);
    else if (part === "search" && rest) search(state, rest);
    else state.toast = `There is no page ${part}`;
  },
  tools: {
    "mail.send_mail"(state, { to, subject, text }) {
      post(state, { kind: "new", about: -1, to, subject, text });
      return { to };
    },
    "mail.reply"(state, { sender, text }) {
      const mail = byWho(state, sender);
      post(state, { kind: "reply", about: mail.id, to: mail.address, subject: `Re: ${mail.subject}`, text });
      return { to: mail.address };
    },
    "mail.forward"(state, { sender, to }) {
      const mail = byWho(state, sender);
      post(state, { kind: "forward", about: mail.id, to, subject: `Fwd: ${mail.subject}`, text: "" });
      return { to };
    },
    "mail.move_mail"(state, { sender, folder }) {
      if (!FOLDERS.includes(folder) || folder === "Sent") throw Error(`there is no folder ${folder} to move to`);
      byWho(state, sender).folder = folder;
      return { folder };
    },
    "mail.set_label"(state, { sender, label }) {
      const mail = byWho(state, sender);
      if (!state.labels.includes(label)) throw Error(`there is no label ${label}`);
      if (!mail.labels.includes(label)) mail.labels = [...mail.labels, label].sort();
      return { labels: mail.labels };
    },
    "mail.read_mail"(state, { sender }) {
      const mail = byWho(state, sender);
      Object.assign(mail, { unread: false, marked: false });
      return { subject: mail.subject, text: mail.lines.join(" ") };
    },
    "mail.post"(state, { thread, text }) {
      answerThread(state, byTitle(state, thread), text);
      return { thread };
    },
  },
});
