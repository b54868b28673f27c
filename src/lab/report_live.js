// While a run trains: asks for newer data every two seconds, and shows them without moving the page.
let shown = null;  // the version of the data that is shown

// New HTML for a part of the page; what was open in it stays open.
function replacePart(name, html) {
  const part = document.querySelector(`[data-part="${name}"]`);
  if (part.dataset.html === html) return;
  const open = [...part.querySelectorAll("details")].map((d) => d.open);
  part.dataset.html = html;
  part.innerHTML = html;
  part.querySelectorAll("details").forEach((d, i) => { d.open = open[i] ?? false; });
}

async function refresh() {
  const answer = await fetch("data", {headers: shown ? {"If-None-Match": shown} : {}, cache: "no-store"});
  if (answer.status === 304) return;
  if (!answer.ok) throw new Error((await answer.text()).trim());
  const fresh = await answer.json();
  for (const [name, html] of Object.entries(fresh.parts)) replacePart(name, html);
  take(fresh.data);
  showRuns();
  shown = answer.headers.get("ETag");
}

function say(words) {
  const status = document.getElementById("live");
  if (status.textContent !== words) status.textContent = words;
}

async function poll() {
  try {
    if (!document.hidden) await refresh();
    say("Live: new records appear here as the run writes them.");
  } catch (e) {
    say(`Not fresh: ${e instanceof TypeError ? "plumb watch does not answer" : e.message}. Trying again.`);
  }
  setTimeout(poll, 2000);
}

poll();
