/* What the pages do in the browser: keep links in step, undo, downloads, drawing bars. */
(() => {
  const same = () => window.dash_clientside.no_update;
  const timers = {};
  const memory = {};  // by page: what differs from its defaults, as links spell it
  const histories = {};  // by page: settings that can be taken back, the present one last
  let links = null;  // sets the links of the menu, where they lag behind

  const set = (id, props) => {
    if (document.getElementById(id)) window.dash_clientside.set_props(id, props);
  };

  const graph = (id) => document.getElementById(id)?.querySelector(".js-plotly-plot");

  const save = (blob, name) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };

  const image = (format) => (clicks, id) => {
    const plot = graph(id);
    if (clicks && plot) {
      const name = "attnlaw-" + id.replace("-figure", "");
      window.Plotly.downloadImage(plot, { format, width: 1000, height: 600, scale: 2, filename: name });
    }
    return same();
  };

  /* One column pair (or triple) a trace: the numbers as they are drawn. */
  const table = (plot) => {
    const columns = [];
    const put = (name, values) => columns.push([name, ...Array.from(values, (v) => v ?? "")]);
    plot._fullData.forEach((trace, k) => {
      const name = trace.name || "series " + (k + 1);
      if (trace.z) {
        const rows = trace.z.length, width = trace.z[0].length;
        const cells = [...Array(rows * width).keys()];
        put(name + " x", cells.map((i) => trace.x ? trace.x[i % width] : i % width));
        put(name + " y", cells.map((i) => trace.y ? trace.y[Math.floor(i / width)] : Math.floor(i / width)));
        put(name + " z", cells.map((i) => trace.z[Math.floor(i / width)][i % width]));
      } else if (trace.x) {
        put(name + " x", trace.x);
        put(name + " y", trace.y);
      }
    });
    const height = Math.max(0, ...columns.map((c) => c.length));
    const quote = (v) => (/[",\n]/.test(String(v)) ? '"' + String(v).replaceAll('"', '""') + '"' : v);
    return [...Array(height).keys()]
      .map((i) => columns.map((c) => quote(c[i] ?? "")).join(",")).join("\n") + "\n";
  };

  const flash = (id, text) => {
    const button = document.getElementById(id);
    const label = button.querySelector(".mantine-Button-label");
    const old = label.textContent;
    label.textContent = text;
    setTimeout(() => { label.textContent = old; }, 1200);
  };

  /* The upload component drops large files without a word; say so. */
  const refuse = (event) => {
    const zone = event.target.closest?.("#data-drop");
    const files = event.dataTransfer?.files || event.target.files;
    const largest = Number(zone?.dataset.largest);
    if (!zone || !files?.length || files[0].size <= largest) return;
    const mib = (bytes) => Math.ceil(bytes / 2 ** 20) + " MiB";
    window.dash_clientside.set_props("data-status", {
      children: "the file must be at most " + mib(largest) + " long, got " + mib(files[0].size) + ".",
    });
  };
  document.addEventListener("drop", refuse, true);
  document.addEventListener("change", refuse, true);

  document.addEventListener("click", (event) => {
    if (event.target.closest?.(".tour")) {  // also one that was chosen before
      setTimeout(() => window.dash_clientside.set_props("visit", { data: Date.now() }), 50);
    }
  });

  /* The menu carries the model from page to page. */
  const remember = (late, pages) => {
    memory[late.page] = { ...late.changed };
    for (const [page, controls] of Object.entries(pages?.[late.page] ? pages : {})) {
      memory[page] = memory[page] || {};
      if (page === late.page) continue;
      for (const [name, [low, high, kind]] of Object.entries(controls)) {
        if (!(name in pages[late.page])) continue;
        const text = late.changed[name], value = Number(text);
        const fits = !["number", "whole"].includes(kind) || (low <= value && value <= high);
        if (text === undefined) delete memory[page][name];
        else if (fits) memory[page][name] = text;
      }
    }
    for (const [page, changed] of Object.entries(memory)) {
      const query = new URLSearchParams(changed).toString();
      set("nav-" + page, { href: "/" + page + (query && "?" + query) });
    }
  };

  /* Settings that lasted for a moment can be taken back; a drag is one change. */
  const record = (late) => {
    const past = histories[late.page] = histories[late.page] || [];
    const now = JSON.stringify(late.values);
    clearTimeout(timers["record-" + late.page]);
    if (past.at(-1) === now) return;
    const write = () => { if (past.at(-1) !== now) past.push(now); };
    if (past.length) timers["record-" + late.page] = setTimeout(write, 400);
    else write();
    if (past.length > 100) past.shift();
  };
  const present = (page, name, property) =>
    window.dash_component_api.getLayout(page + "-" + name)?.props[property];
  const isPresent = (page, text) => Object.entries(JSON.parse(text))
    .every(([name, [property, value]]) => String(present(page, name, property)) === String(value));
  const restore = (page, text, which) => {
    for (const [name, cell] of Object.entries(JSON.parse(text))) {
      if (String(present(page, name, cell[0])) === String(cell[which])) continue;
      window.dash_clientside.set_props(page + "-" + name, { [cell[0]]: cell[which] });
    }
  };

  /* What is wrong is said beside the control that caused it. */
  const blame = (page, name, text) => {
    if (timers["blamed-" + page]) set(timers["blamed-" + page], { error: null });
    timers["blamed-" + page] = name ? page + "-" + name : null;
    if (name) set(page + "-" + name, { error: text });
  };

  /* One tooltip for all symbols: Dash would ask forty of them after every change of the page. */
  const hint = () => {
    const box = document.createElement("div");
    box.id = "hint";
    box.setAttribute("role", "tooltip");
    const hide = () => { box.remove(); };
    const show = (event) => {
      const symbol = event.target.closest?.("[data-meaning]");
      if (!symbol) return hide();
      box.textContent = symbol.dataset.meaning;
      document.body.append(box);
      const at = symbol.getBoundingClientRect(), size = box.getBoundingClientRect();
      const left = at.left + at.width / 2 - size.width / 2, above = at.top - size.height - 6;
      box.style.left = Math.max(6, Math.min(left, window.innerWidth - size.width - 6)) + "px";
      box.style.top = (above < 6 ? at.bottom + 6 : above) + "px";
    };
    document.addEventListener("mouseover", show);
    document.addEventListener("focusin", show);
    document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
    document.addEventListener("scroll", hide, true);
  };
  hint();

  for (const kind of ["mouseover", "pointerdown", "focusin"]) {
    document.addEventListener(kind, (event) => {
      if (event.target.closest?.("#navbar")) links?.();
    }, true);
  }

  window.dash_clientside = window.dash_clientside || {};
  window.dash_clientside.explorer = {
    /* A page has been laid out: its sliders are put in place. */
    mount: () => {
      window.sliders.mount();
      requestAnimationFrame(window.sliders.mount);  // where React is not done yet
    },

    /* After a redraw: the address at once; links, formulas and code when the hand rests. */
    settle: (late, pages) => {
      if (!late) return same();
      window.sliders.settled(late);
      if ("wrong" in late) {
        blame(late.page, late.wrong, late.error);
        return same();
      }
      blame(late.page, "", "");
      const path = window.location.pathname;
      if (path === "/" || path.endsWith("/" + late.page)) {
        window.history.replaceState(window.history.state, "", "/" + late.page + late.query);
      }
      record(late);
      clearTimeout(timers[late.page]);
      links = () => {
        links = null;
        remember(late, pages);
      };
      timers[late.page] = setTimeout(() => {
        links?.();
        set(late.page + "-formula", { children: late.formula });
        if (document.getElementById(late.page + "-formula")) {
          window.dash_clientside.set_props(late.page + "-code", { code: late.code });
        }
      }, 400);
      return same();
    },

    undo: (clicks, id) => {
      const page = id.replace("-figure", "");
      if (clicks) window.sliders.after(page, () => {
        const past = histories[page] || [];
        clearTimeout(timers["record-" + page]);
        if (past.length > 1 && isPresent(page, past.at(-1))) past.pop();
        if (past.length) restore(page, past.at(-1), 1);
      });
      return same();
    },
    reset: (clicks, id) => {
      const page = id.replace("-figure", "");
      if (clicks) window.sliders.after(page, () => {
        const past = histories[page] || [];
        if (past.length) restore(page, past.at(-1), 2);
      });
      return same();
    },

    png: image("png"),
    svg: image("svg"),
    csv: (clicks, id) => {
      const plot = graph(id);
      if (clicks && plot) {
        save(new Blob([table(plot)], { type: "text/csv" }), "attnlaw-" + id.replace("-figure", "") + ".csv");
      }
      return same();
    },
    link: (clicks, id) => {
      if (clicks) {
        navigator.clipboard?.writeText(window.location.href)
          .then(() => flash(id.replace("-figure", "-link"), "Copied"),
                () => flash(id.replace("-figure", "-link"), "Copy it from the address bar"));
      }
      return same();
    },

    /* Bars that follow the pointer, or the arrow keys: left and right choose, up and down lift. */
    draw: function draw() {
      const plot = graph("weights-figure");
      if (!plot && document.getElementById("weights-figure")) setTimeout(draw, 50);  // not yet there
      if (!plot || plot.dataset.drawn) return same();
      plot.dataset.drawn = "yes";
      plot.tabIndex = 0;
      plot.setAttribute("role", "slider");
      plot.setAttribute("aria-label", "Weights: left and right choose a position, up and down change it");
      let chosen = 0, last = null, held = null, before = null, scale = null;

      const weights = () => held || Array.from(plot._fullData[0].y, Number);
      const put = (w) => {
        const text = w.map((v) => Number(v.toPrecision(4))).join(",");
        if (!w.some((v) => Number(v.toPrecision(4)) !== 0) || text === last) return;
        last = text;
        window.dash_clientside.set_props("weights-weights", { value: "own" });
        window.dash_clientside.set_props("weights-own", { value: text });
      };
      const tell = (w) => {
        plot.setAttribute("aria-valuenow", w[chosen]);
        plot.setAttribute("aria-valuetext", "position " + (chosen + 1) + ": " + w[chosen]);
      };
      const vertical = () => {
        const { _offset: top, _length: length, range } = plot._fullLayout.yaxis;
        return { top, length, range: Array.from(range, Number) };
      };
      const place = (event) => {
        const box = plot.getBoundingClientRect();
        const { xaxis } = plot._fullLayout;
        const { top, length, range: [low, high] } = scale || vertical();
        const px = event.clientX - box.left - xaxis._offset;
        const py = event.clientY - box.top - top;
        if (px < 0 || px > xaxis._length || py < -20 || py > length + 20) return null;
        const share = Math.max(0, Math.min(py, length)) / length;
        return [Math.round(xaxis.p2d(px)) - 1, high + (low - high) * share];
      };
      const lift = (event) => {
        const at = place(event), w = weights();
        if (!at || at[0] < 0 || at[0] >= w.length) return false;
        const size = Math.max(...w.map(Math.abs));
        const height = Math.abs(at[1]) < 0.01 * size ? 0 : at[1];
        const [from, start] = before || [at[0], height];  // a fast hand passes over bars
        const n = Math.abs(at[0] - from);
        for (let k = 0; k <= n; k += 1) {
          const share = n ? k / n : 1;
          w[from + Math.sign(at[0] - from) * k] = start + (height - start) * share;
        }
        chosen = at[0];
        before = [chosen, height];
        put(w);
        tell(w);
        return true;
      };
      plot.addEventListener("pointerdown", (event) => {
        held = weights();  // what is drawn lags behind the hand
        scale = vertical();  // and its axis may change below it
        before = null;
        if (!lift(event)) {
          held = scale = null;
          return;
        }
        event.preventDefault();
        const move = (e) => lift(e);
        const end = () => {
          held = scale = null;
          window.removeEventListener("pointermove", move);
          window.removeEventListener("pointerup", end);
          window.removeEventListener("pointercancel", end);
        };
        window.addEventListener("pointermove", move);
        window.addEventListener("pointerup", end);
        window.addEventListener("pointercancel", end);
      }, true);
      plot.addEventListener("keydown", (event) => {
        const w = weights(), step = 0.02 * Math.max(...w.map(Math.abs));
        const moves = { ArrowLeft: -1, ArrowRight: 1 }, lifts = { ArrowUp: step, ArrowDown: -step };
        if (event.key in moves) {
          chosen = Math.max(0, Math.min(w.length - 1, chosen + moves[event.key]));
        } else if (event.key in lifts) {
          w[chosen] += lifts[event.key];
          put(w);
        } else return;
        event.preventDefault();
        tell(w);
      });
      return same();
    },

    /* Whether the screen is narrow, now and whenever that changes. */
    narrow: () => {
      const query = window.matchMedia("(max-width: 36em)");
      query.onchange = () => window.dash_clientside.set_props("narrow", { data: query.matches });
      return query.matches;
    },

    theme: (clicks, theme) => {
      const now = theme || document.documentElement.dataset.mantineColorScheme;  // of theme.js
      if (!clicks) return now;
      const next = now === "dark" ? "light" : "dark";
      localStorage.setItem("mantine-color-scheme-value", next);  // where Mantine looks, too
      return next;
    },
  };
})();
