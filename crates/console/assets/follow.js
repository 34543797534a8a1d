// New records on the page of messages, as they come. All of a record is put in as text.
"use strict";
{
  const ROWS_MAX = 500;
  const follow = document.getElementById("follow");
  const toggle = follow?.querySelector("[data-follow-toggle]");
  const status = follow?.querySelector("[data-follow-status]");
  const table = follow?.querySelector(".table");
  const announce = follow?.querySelector("[data-follow-announce]");
  const body = follow?.querySelector("tbody");
  let source = null;
  let [shown, leftOut] = [0, 0];

  function say(text) {
    if (status.textContent !== text) status.textContent = text;
  }

  function start() {
    source = new EventSource(follow.dataset.follow);
    source.addEventListener("records", (event) => take(JSON.parse(event.data)));
    source.onopen = () => say("Waiting for new records.");
    source.onerror = () => {
      // A browser tries again after a connection was cut, and not after a refusal.
      if (source?.readyState === EventSource.CLOSED) stop("It was refused: too many pages follow, or the cluster does not answer.");
      else say("The connection was cut; trying again.");
    };
    toggle.textContent = "Pause";
    table.hidden = announce.parentElement.hidden = false;
    say("Connecting.");
  }

  function stop(why) {
    source?.close();
    source = null;
    toggle.textContent = "Live tail";
    say(why);
  }

  function take({ rows, left_out: more, problem }) {
    for (const row of rows) body.prepend(line(row));
    while (body.rows.length > ROWS_MAX) body.lastElementChild.remove();
    shown += rows.length;
    leftOut += more;
    const counts = [shown ? `${shown.toLocaleString("en")} new` : "Waiting for new records"];
    if (shown > ROWS_MAX) counts.push(`the last ${ROWS_MAX} stay here`);
    if (leftOut) counts.push(`${leftOut.toLocaleString("en")} came too fast and are left out`);
    if (problem) counts.push(problem);
    say(`${counts.join("; ")}.`);
  }

  function line(row) {
    const line = document.createElement("tr");
    line.className = "fresh";
    const cell = (name, text, className) => {
      const cell = document.createElement(name);
      cell.className = className;
      cell.textContent = text;
      line.append(cell);
      return cell;
    };
    cell("td", row.partition, "number");
    const offset = cell("th", "", "number");
    offset.scope = "row";
    const link = document.createElement("a");
    link.href = row.href;
    link.textContent = row.offset;
    offset.append(link);
    cell("td", row.time, "line");
    for (const name of ["key", "value"]) {
      const { text, is_content: isContent, note } = row[name];
      const field = document.createElement("div");
      field.className = isContent ? "clip mono" : "clip";
      field.textContent = isContent ? text : "";
      for (const word of [isContent ? null : text, note]) {
        if (!word) continue;
        const small = document.createElement("small");
        small.className = "said";
        small.textContent = word;
        field.append(" ", small);
      }
      cell("td", "", name).append(field);
    }
    cell("td", row.headers, "number");
    cell("td", row.size, "number");
    return line;
  }

  if (follow) {
    follow.hidden = false;
    toggle.addEventListener("click", () => {
      if (source) stop("Paused. What comes meanwhile is not shown here.");
      else start();
    });
    announce.addEventListener("change", () => body.setAttribute("aria-live", announce.checked ? "polite" : "off"));
    document.addEventListener("visibilitychange", () => {
      if (document.hidden && source) stop("It ended when this tab was hidden. What came since is not shown here.");
    });
  }
}
