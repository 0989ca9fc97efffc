"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const SVG = "http://www.w3.org/2000/svg";
  const PAGE = 25;
  const CERTAINTY = -1;
  const START = data.power === null ? "certainty" : `column ${data.power}`;
  const byId = (id) => document.getElementById(id);
  const everybody = data.users.map((_, u) => u);
  const state = { roles: new Set(), find: "", sort: START, down: true, page: 0, user: null, axes: data.axes.slice(), logs: [false, false] };

  const make = (tag, attributes, ...children) => {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) node.setAttribute(name, value);
    node.append(...children);
    return node;
  };
  const draw = (tag, attributes, text) => {
    const node = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    if (text !== undefined) node.textContent = text;
    return node;
  };
  const number = (value, decimals) => {
    if (value === null || value === undefined) return "–";
    const text = decimals !== undefined ? value.toFixed(decimals) : Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(3)));
    return text.replace("-", "−");
  };
  const percent = (value) => (value > 0 && value < 0.005 ? "<1 %" : value >= 0.995 && value < 1 ? ">99 %" : `${Math.round(100 * value)} %`);
  const name = (u) => make("bdi", {}, data.users[u]);
  const marker = (role) => {
    const look = data.roles[role];
    const svg = draw("svg", { class: "marker", viewBox: "-8 -8 16 16", width: 16, height: 16, "aria-hidden": "true" });
    svg.append(draw("path", { d: look.path, fill: look.color, stroke: "#262626" }));
    return svg;
  };
  const cellText = (c, u) => number(data.columns[c].values[u], data.columns[c].decimals);
  const columnName = (c) => (c === CERTAINTY ? "certainty" : data.columns[c].name);
  const columnValues = (c) => (c === CERTAINTY ? data.certainty : data.columns[c].values);
  const interval = (u) => {
    const power = data.columns[data.power];
    return `${number(power.low[u], power.decimals)} to ${number(power.high[u], power.decimals)}`;
  };

  // Who is shown: the chosen roles, and names with what was typed in them.
  const matches = (u) => (state.roles.size === 0 || state.roles.has(data.role[u])) && data.users[u].toLowerCase().includes(state.find.toLowerCase());
  let shown = everybody;
  const keys = { user: (u) => data.users[u].toLowerCase(), role: (u) => data.role[u], certainty: (u) => data.certainty[u] };
  data.columns.forEach((column, c) => { keys[`column ${c}`] = (u) => column.values[u]; });
  const order = () => {
    const key = keys[state.sort];
    const sign = state.down ? -1 : 1;
    shown = everybody.filter(matches).sort((a, b) => {
      const [x, y] = [key(a), key(b)];
      if (x === null || y === null) return (x === null) - (y === null);
      return x < y ? -sign : x > y ? sign : a - b;
    });
  };

  // The table.
  const heads = [
    { key: "user", text: "user" },
    { key: "role", text: "role" },
    { key: "certainty", text: "certainty", number: true },
    ...(data.power === null ? [] : [{ key: `column ${data.power}`, text: columnName(data.power), number: true, column: data.power }, { key: null, text: "95 % interval", number: true, wide: true }]),
    ...data.listed.map((c) => ({ key: `column ${c}`, text: columnName(c), number: true, wide: true, column: c })),
  ];
  const headClass = (head) => [head.number ? "number" : "", head.wide ? "wide" : ""].join(" ").trim();
  const showHeads = () => {
    const row = make("tr");
    for (const head of heads) {
      const cell = make("th", { scope: "col", class: headClass(head) });
      if (head.key === null) {
        cell.textContent = head.text;
      } else {
        const button = make("button", { type: "button", "data-sort": head.key }, head.text);
        if (state.sort === head.key) {
          cell.setAttribute("aria-sort", state.down ? "descending" : "ascending");
          button.append(state.down ? " ▼" : " ▲");
        }
        button.addEventListener("click", () => {
          state.down = state.sort === head.key ? !state.down : Boolean(head.number);
          state.sort = head.key;
          state.page = 0;
          show();
          document.querySelector(`#table button[data-sort="${head.key}"]`).focus();
        });
        cell.append(button);
      }
      row.append(cell);
    }
    document.querySelector("#table thead").replaceChildren(row);
  };
  const cellOf = (head, u) => {
    if (head.key === "user") {
      const button = make("button", { type: "button" }, name(u));
      button.addEventListener("click", () => choose(u, true));
      return make("td", {}, button);
    }
    if (head.key === "role") return make("td", { class: "nowrap" }, marker(data.role[u]), ` ${data.role[u]}`);
    if (head.key === "certainty") return make("td", { class: "number" }, percent(data.certainty[u]));
    return make("td", { class: headClass(head) }, head.key === null ? interval(u) : cellText(head.column, u));
  };
  const showTable = () => {
    showHeads();
    const pages = Math.max(1, Math.ceil(shown.length / PAGE));
    state.page = Math.min(Math.max(state.page, 0), pages - 1);
    const first = state.page * PAGE;
    const rows = shown.slice(first, first + PAGE).map((u) => make("tr", u === state.user ? { class: "chosen" } : {}, ...heads.map((head) => cellOf(head, u))));
    document.querySelector("#table tbody").replaceChildren(...rows);
    byId("page").textContent = shown.length ? `${first + 1} to ${Math.min(first + PAGE, shown.length)} of ${shown.length.toLocaleString("en")}` : "nobody";
    byId("previous").disabled = state.page === 0;
    byId("next").disabled = state.page === pages - 1;
    byId("count").textContent = shown.length === everybody.length ? "" : `${shown.length.toLocaleString("en")} of ${everybody.length.toLocaleString("en")} users`;
  };

  // One user at length.
  const showCard = () => {
    const card = byId("card");
    card.hidden = state.user === null;
    if (state.user === null) return;
    const u = state.user;
    const facts = [["role", String(data.role[u])], ["certainty", percent(data.certainty[u])], ...data.columns.map((column, c) => [column.name, cellText(c, u)])];
    if (data.power !== null) facts.splice(3 + data.power, 0, ["95 % interval", interval(u)]);
    const close = make("button", { type: "button" }, "Close");
    close.addEventListener("click", () => { choose(null); byId("find").focus(); });
    const list = make("dl", {}, ...facts.map(([term, text]) => make("div", {}, make("dt", {}, term), make("dd", {}, text))));
    card.replaceChildren(make("h3", {}, marker(data.role[u]), " ", name(u)), list, close);
  };
  const choose = (u, move) => {
    state.user = u;
    show();
    if (move) {
      byId("card").scrollIntoView({ block: "nearest" });
      byId("card").focus({ preventScroll: true });
    }
  };

  // The map.
  const map = byId("map");
  const ticks = (low, high, log) => {
    if (log) {
      const all = [];
      for (let e = Math.floor(Math.log10(low)); e <= Math.log10(high); e++) for (const m of [1, 2, 5]) all.push(m * 10 ** e);
      const inside = all.filter((v) => v >= low && v <= high);
      return inside.length > 8 ? inside.filter((v) => Math.abs(Math.log10(v) % 1) < 1e-9) : inside;
    }
    const raw = (high - low) / 5;
    const base = 10 ** Math.floor(Math.log10(raw));
    const step = base * [1, 2, 5, 10].find((m) => m * base >= raw);
    const result = [];
    for (let i = Math.ceil(low / step); i * step <= high; i++) result.push(Number((i * step).toPrecision(12)));
    return result;
  };
  const scale = (axis, from, to) => {
    const values = columnValues(state.axes[axis]).filter((v) => v !== null);
    const log = state.logs[axis];
    const turn = log ? Math.log : (v) => v;
    const back = log ? Math.exp : (v) => v;
    let [low, high] = [turn(Math.min(...values)), turn(Math.max(...values))];
    const margin = 0.04 * (high - low) || 0.5;
    low -= margin;
    high += margin;
    return { place: (v) => from + ((turn(v) - low) / (high - low)) * (to - from), ticks: ticks(back(low), back(high), log) };
  };
  let places = [];
  const mapUser = (u, active, size) => {
    const look = data.roles[data.role[u]];
    const at = places[u];
    const attributes = { d: look.path, transform: `translate(${at[0].toFixed(1)} ${at[1].toFixed(1)}) scale(${size})` };
    return draw("path", active ? { ...attributes, fill: look.color, stroke: "#262626", "data-user": u } : { ...attributes, class: "faint" });
  };
  const showMap = () => {
    if (!map) return;
    const width = Math.max(240, map.clientWidth);
    const height = Math.round(Math.min(560, Math.max(300, 0.62 * width)));
    const [left, bottom] = [56, height - 44];
    const across = scale(0, left, width - 8);
    const up = scale(1, bottom, 8);
    const svg = draw("svg", { width, height, role: "img", "aria-label": `Map of ${shown.length} users by ${columnName(state.axes[0])} and ${columnName(state.axes[1])}, marked by role; the table below has the same users.` });
    for (const t of across.ticks) {
      svg.append(draw("line", { x1: across.place(t), x2: across.place(t), y1: 8, y2: bottom, stroke: "#ededed" }));
      svg.append(draw("text", { x: across.place(t), y: bottom + 16, "text-anchor": "middle" }, number(t)));
    }
    for (const t of up.ticks) {
      svg.append(draw("line", { x1: left, x2: width - 8, y1: up.place(t), y2: up.place(t), stroke: "#ededed" }));
      svg.append(draw("text", { x: left - 6, y: up.place(t) + 4, "text-anchor": "end" }, number(t)));
    }
    svg.append(draw("path", { d: `M${left} 8V${bottom}H${width - 8}`, fill: "none", stroke: "#8c8c8c" }));
    svg.append(draw("text", { class: "name", x: (left + width) / 2, y: height - 8, "text-anchor": "middle" }, columnName(state.axes[0])));
    svg.append(draw("text", { class: "name", x: 0, y: 0, "text-anchor": "middle", transform: `translate(12 ${bottom / 2}) rotate(-90)` }, columnName(state.axes[1])));
    const [x, y] = state.axes.map(columnValues);
    places = everybody.map((u) => [across.place(x[u]), up.place(y[u])]);
    const size = Math.min(0.9, Math.max(0.45, 12 / Math.sqrt(everybody.length)));
    const active = new Set(shown);
    // The others first, so that they hide nobody; small roles after large ones.
    everybody.filter((u) => !active.has(u)).forEach((u) => svg.append(mapUser(u, false, size)));
    [...shown].sort((a, b) => data.role[a] - data.role[b]).forEach((u) => svg.append(mapUser(u, true, size)));
    if (state.user !== null) svg.append(draw("circle", { class: "ring", cx: places[state.user][0], cy: places[state.user][1], r: 11 }));
    const tip = make("div", { class: "tip" });
    tip.hidden = true;
    map.replaceChildren(svg, tip);
  };
  const nearest = (event) => {
    const box = map.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    let found = null;
    let least = 14 ** 2;
    for (const u of shown) {
      const distance = (places[u][0] - x) ** 2 + (places[u][1] - y) ** 2;
      if (distance <= least) [found, least] = [u, distance];
    }
    return found;
  };
  const showTip = (u) => {
    const tip = map.querySelector(".tip");
    tip.hidden = u === null;
    map.querySelector(".hover")?.remove();
    if (u === null) return;
    map.querySelector("svg").append(draw("circle", { class: "ring hover", cx: places[u][0], cy: places[u][1], r: 9 }));
    const lines = [`role ${data.role[u]}, certainty ${percent(data.certainty[u])}`, ...(data.power === null ? [] : [`${columnName(data.power)} ${cellText(data.power, u)} (${interval(u)})`])];
    for (const c of state.axes) if (c !== data.power && c !== CERTAINTY) lines.push(`${columnName(c)} ${number(columnValues(c)[u])}`);
    tip.replaceChildren(make("strong", {}, name(u)), ...lines.flatMap((line) => [make("br"), line]));
    tip.style.left = `${Math.max(0, Math.min(places[u][0] + 12, map.clientWidth - tip.offsetWidth))}px`;
    tip.style.top = `${places[u][1] + 14 + tip.offsetHeight > map.clientHeight ? places[u][1] - 14 - tip.offsetHeight : places[u][1] + 14}px`;
  };
  const positive = (c) => columnValues(c).every((v) => v !== null && v > 0);
  const skewed = (c) => {
    const values = columnValues(c).slice().sort((a, b) => a - b);
    return positive(c) && values[values.length - 1] > 15 * values[values.length >> 1];
  };
  const setUpMap = () => {
    if (!map) return;
    ["across", "up"].forEach((id, axis) => {
      const select = byId(id);
      const box = byId(`${id}-log`);
      [...data.columns.keys(), CERTAINTY].forEach((c) => select.append(make("option", { value: c }, columnName(c))));
      const settle = () => {
        select.value = String(state.axes[axis]);
        box.disabled = !positive(state.axes[axis]);
        box.checked = state.logs[axis] = skewed(state.axes[axis]);
      };
      settle();
      select.addEventListener("change", () => { state.axes[axis] = Number(select.value); settle(); show(); });
      box.addEventListener("change", () => { state.logs[axis] = box.checked; show(); });
    });
    map.addEventListener("pointermove", (event) => showTip(nearest(event)));
    map.addEventListener("pointerleave", () => showTip(null));
    map.addEventListener("click", (event) => { const u = nearest(event); if (u !== null) choose(u); });
    new ResizeObserver(() => { if (Math.abs(map.clientWidth - Number(map.querySelector("svg")?.getAttribute("width"))) > 1) showMap(); }).observe(map);
  };

  // Roles to choose from.
  const setUpFilter = () => {
    const all = make("button", { type: "button" }, "All roles");
    all.addEventListener("click", () => { state.roles.clear(); state.page = 0; show(); });
    const buttons = data.roles.map((look, role) => {
      const button = make("button", { type: "button", "aria-label": `role ${role}, ${look.size} users` }, marker(role), ` ${role}`);
      button.addEventListener("click", () => {
        if (!state.roles.delete(role)) state.roles.add(role);
        state.page = 0;
        show();
      });
      return button;
    });
    byId("filter").append(all, ...buttons);
  };
  const showFilter = () => {
    const [all, ...buttons] = byId("filter").children;
    all.setAttribute("aria-pressed", String(state.roles.size === 0));
    buttons.forEach((button, role) => button.setAttribute("aria-pressed", String(state.roles.has(role))));
  };

  // The address says who is looked at, so that a view can be sent: #role=1&find=an&sort=role&user=anna
  const readAddress = () => {
    if (!location.hash.includes("=")) return false;
    const asked = new URLSearchParams(location.hash.slice(1));
    state.roles = new Set(asked.getAll("role").map(Number).filter((role) => role in data.roles));
    state.find = asked.get("find") || "";
    const [sort, way] = (asked.get("sort") || "").split("|");
    if (sort in keys) [state.sort, state.down] = [sort, way === "down"];
    const u = data.users.indexOf(asked.get("user") ?? "\0");
    state.user = u < 0 ? null : u;
    byId("find").value = state.find;
    return true;
  };
  const writeAddress = () => {
    const asked = new URLSearchParams();
    state.roles.forEach((role) => asked.append("role", role));
    if (state.find) asked.set("find", state.find);
    if (state.sort !== START || !state.down) asked.set("sort", `${state.sort}|${state.down ? "down" : "up"}`);
    if (state.user !== null) asked.set("user", data.users[state.user]);
    const text = asked.toString();
    if (text || location.hash.includes("=")) history.replaceState(null, "", `#${text || "users"}`);
  };

  const show = () => {
    order();
    showFilter();
    showTable();
    showCard();
    showMap();
    writeAddress();
  };

  document.querySelector(".scripted").hidden = false;
  setUpFilter();
  setUpMap();
  byId("find").addEventListener("input", (event) => { state.find = event.target.value; state.page = 0; show(); });
  byId("previous").addEventListener("click", () => { state.page--; show(); });
  byId("next").addEventListener("click", () => { state.page++; show(); });
  window.addEventListener("hashchange", () => { if (readAddress()) { show(); byId("users").scrollIntoView(); } });
  const asked = readAddress();
  show();
  if (asked) byId("users").scrollIntoView();
})();
