/* Sliders. While one moves, its page is asked for and drawn here, with fixed axes and without Dash,
   whose bookkeeping takes longer than the law itself; Dash learns the value when the hand rests,
   and draws everything once more: links, undo, formulas and code follow it alone. */
(() => {
  const REST = 250;  // milliseconds without a move
  const slides = {};  // by page: the slide that Dash does not know yet
  const held = {};  // by page: ranges of its axes
  const shown = {};  // by page: what Dash has drawn beside the figure
  const told = {};  // by page: what to do when Dash has drawn the slide that it was told of
  const waiting = [];  // called after the next drawing
  let gripped = null;  // page on whose slider a finger is
  let playing = null;

  const put = (id, props) => window.dash_clientside.set_props(id, props);
  const props = (id) => {
    try {
      return window.dash_component_api.getLayout(id).props;
    } catch {  // a page without such a store
      return {};
    }
  };
  const pageOf = (element) => element.closest?.("[data-page]")?.dataset.page;
  const graph = (page) => document.getElementById(page + "-figure")?.querySelector(".js-plotly-plot");
  const write = (element, text) => { if (element && element.textContent !== text) element.textContent = text; };
  const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

  /* The thumb and the coloured part of its track. */
  const point = (input, value) => {
    if (value !== undefined) input.value = value;
    const share = (input.value - input.min) / (input.max - input.min);
    input.style.setProperty("--at", 100 * share + "%");
  };
  const mount = () => {
    for (const place of document.querySelectorAll(".slider:empty")) {
      const { control, label, min, max, step, value } = place.dataset;
      const input = document.createElement("input");
      Object.assign(input, { type: "range", min, max, step });
      input.setAttribute("aria-label", label);
      input.dataset.control = control;
      point(input, value);
      place.append(input);
    }
  };
  const input = (control) => document.getElementById(control + "-slider")?.firstChild;

  /* While a slider moves or plays, the axes stay: what moves is the spectrum. */
  const hold = (page) => {
    const layout = graph(page)?._fullLayout;
    if (!layout || held[page]) return;
    held[page] = {};
    for (const name of ["xaxis", "yaxis", "xaxis2", "yaxis2"]) {
      if (layout[name] && !layout[name].autorange && layout[name].type === "linear") {
        held[page][name] = Array.from(layout[name].range);
      }
    }
  };

  /* One question at a time, and the newest value next: answers come in the order of the moves. */
  const ask = async (page) => {
    const slide = slides[page];
    if (!slide || slide.asks) return;
    slide.asks = true;
    slide.isOld = false;
    const asked = slide.value, values = {};
    for (const name of slide.names) {
      const { checked, value } = props(page + "-" + name);
      values[name] = checked ?? value ?? null;
    }
    values[slide.name] = asked;
    const question = {
      values, theme: props("theme").data ?? null, narrow: props("narrow").data ?? null,
      hold: held[page] ?? null, extra: props(page + "-extra").data ?? null,
    };
    let answer = null;
    try {
      const reply = await fetch("/_moved/" + page, {
        method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(question),
      });
      if (reply.ok) answer = await reply.json();
    } catch { /* Dash says that the server is gone */ }
    slide.asks = false;
    if (slides[page] !== slide || !graph(page)) return;  // another setting is shown meanwhile
    if (answer && fits(page, answer)) {
      await draw(page, answer);
      if (slide.value !== asked || slide.isOld) ask(page);
    } else rest(page);
  };

  /* Tables, other sets of numbers and another number of notices are for Dash to draw. */
  const fits = (page, { error, notices, has_more, readings }) => {
    const now = shown[page];
    return !error && now && now.notices.length === notices.length && now.has_more === has_more
      && same(Object.keys(now.readings), Object.keys(readings));
  };
  const tell = (page, { readings, sentence, notices }) => {
    const boxes = document.querySelectorAll("#" + page + "-notices .mantine-Alert-message");
    if (boxes.length === notices.length) notices.forEach((text, k) => write(boxes[k], text));
    for (const [key, text] of Object.entries(readings)) {
      write(document.getElementById(page + "-reading-" + key), text);
    }
    write(document.getElementById(page + "-sentence"), sentence);
  };

  /* Curves that only move are moved; axes and legend, most of the work of a drawing, stay. */
  const AT_ONCE = { mode: "immediate", transition: { duration: 0 }, frame: { duration: 0, redraw: false } };
  const isPart = (part, whole) => (part && typeof part === "object"
    ? Object.keys(part).every((key) => isPart(part[key], whole?.[key]))
      && (!Array.isArray(part) || part.length === (whole?.length ?? 0))
    : part === whole);
  const onlyMoves = ({ data, layout }, plot) => data.length === plot.data.length
    && data.every(({ x, y, ...rest }, k) => rest.type === "scatter" && isPart(rest, plot.data[k]))
    && isPart({ annotations: [], ...layout }, plot.layout);
  const draw = async (page, answer) => {
    const { data, layout } = answer.figure, plot = graph(page);
    if (onlyMoves(answer.figure, plot)) {
      const frame = { data: data.map(({ x, y }) => ({ x, y })), traces: data.map((_, k) => k) };
      await window.Plotly.animate(plot, frame, AT_ONCE).catch(() => {});
    } else await window.Plotly.react(plot, data, { ...layout, autosize: true });
    tell(page, answer);
    drawn();
  };
  const drawn = () => { while (waiting.length) waiting.pop()(); };

  const move = (control, value, isFree = false) => {
    const root = document.getElementById(control)?.closest("[data-page]");
    if (!root) return;
    const page = root.dataset.page, name = control.slice(page.length + 1);
    if (slides[page] && slides[page].name !== name) rest(page);
    slides[page] = slides[page] || { name, names: root.dataset.controls.split(" ") };
    const slide = slides[page], slider = input(control);
    slide.value = value;
    point(slider, value);
    document.getElementById(control).value = slider.value;
    if (!isFree && !slider.parentNode.dataset.free) hold(page);
    ask(page);
    clearTimeout(slide.timer);
    if (!playing) slide.timer = setTimeout(() => rest(page), REST);
  };

  /* Tell Dash where the slider is. */
  const rest = (page) => {
    const slide = slides[page];
    if (slide) clearTimeout(slide.timer);
    delete slides[page];
    if (gripped !== page && !playing) delete held[page];
    if (!document.getElementById(page + "-figure")) return;
    const kept = held[page] ?? null;
    if (!same(props(page + "-hold").data ?? null, kept)) put(page + "-hold", { data: kept });
    if (!slide) return;
    told[page] = [];
    put(page + "-" + slide.name, { value: slide.value });
  };

  /* What is typed into the number of a slide takes its place: told later, the slide would be set over it. */
  const isNumberOf = (page, element) => element.id === page + "-" + slides[page].name;
  const typed = (field) => {
    for (const page of Object.keys(slides)) {
      if (!isNumberOf(page, field)) continue;
      clearTimeout(slides[page].timer);
      delete slides[page];
      delete held[page];
      field.addEventListener("blur", () => {  // Dash draws nothing where it knows the number already
        if (props(field.id).value === Number(field.value)) move(field.id, Number(field.value));
      }, { once: true });
    }
  };
  document.addEventListener("input", (event) => {
    if (event.target.closest?.(".slider")) move(event.target.dataset.control, Number(event.target.value));
    else typed(event.target);
  });
  /* What else is done first lets the slide be known. */
  const others = (event) => {
    const inside = event.target.closest?.(".slider");
    for (const page of Object.keys(slides)) {
      if (!inside && !isNumberOf(page, event.target) && !(playing && event.target.closest?.(".play"))) rest(page);
    }
  };
  document.addEventListener("focusin", others, true);  // before anything is typed
  document.addEventListener("keydown", others, true);
  document.addEventListener("pointerdown", (event) => {
    others(event);
    const slider = event.target.closest?.(".slider");
    const page = slider && pageOf(slider);
    if (!page || playing) return;
    gripped = page;
    if (!slider.dataset.free) hold(page);
    const end = () => {
      window.removeEventListener("pointerup", end);
      window.removeEventListener("pointercancel", end);
      gripped = null;
      rest(page);
    };
    window.addEventListener("pointerup", end);
    window.addEventListener("pointercancel", end);
  }, true);

  /* Sweep a parameter; the next value is set when the last one has been drawn. */
  const redrawn = () => new Promise((resolve) => {
    const timer = setTimeout(resolve, 3000);  // a page that shows an error draws nothing
    waiting.push(() => { clearTimeout(timer); resolve(); });
  });
  const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  const play = async (button) => {
    const { control, first, last, step } = button.dataset;
    const page = pageOf(button), me = { button };
    const from = Number(first), to = Number(last), size = Number(step), n = 60;
    const go = async (value, isFree) => {
      const seen = redrawn();
      move(control, Number((Math.round(value / size) * size).toFixed(6)), isFree);
      await Promise.all([seen, pause(60)]);
    };
    button.textContent = "■";
    button.setAttribute("aria-pressed", "true");
    playing = me;
    await go((from + to) / 2, true);  // axes that suit the middle of the way
    for (let k = 0; k <= n && playing === me && document.contains(button); k += 1) {
      await go(from + (to - from) * k / n);
    }
    if (playing === me) playing = null;
    button.textContent = "▶";
    button.setAttribute("aria-pressed", "false");
    if (!playing) rest(page);
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest?.(".play");
    if (!button) return;
    const mine = playing?.button === button;
    playing = null;
    if (!mine) play(button);
  });

  window.sliders = {
    /* Dash has drawn: sliders and numbers say what it says, but for one that is still moving. */
    settled: (late) => {
      const { page } = late, todo = told[page] || [];
      delete told[page];
      setTimeout(() => todo.forEach((act) => act()), 0);
      if ("wrong" in late) {
        delete shown[page];
        return drawn();
      }
      shown[page] = late;
      for (const [name, [, value]] of Object.entries(late.values)) {
        const slider = input(page + "-" + name);
        if (slider && slides[page]?.name !== name) point(slider, value);
      }
      if (slides[page]) {  // what was drawn is older than the slide
        slides[page].isOld = true;
        return ask(page);
      }
      tell(page, late);
      drawn();
    },
    /* Act when Dash knows the last slide: a number that is set twice at once is set to either. */
    after: (page, act) => {
      if (slides[page]) rest(page);
      if (told[page]) told[page].push(act);
      else act();
    },
    mount,
  };
})();
