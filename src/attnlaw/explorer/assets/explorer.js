/* What the pages do in the browser: keep sliders and links in step, downloads, drawing bars. */
(() => {
  const same = () => window.dash_clientside.no_update;
  const timers = {};

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

  window.dash_clientside = window.dash_clientside || {};
  window.dash_clientside.explorer = {
    /* A slider and its number field say the same. */
    sync: (number, slider) => {
      const trigger = window.dash_clientside.callback_context.triggered_id || "";
      if (number === slider) return [same(), same()];
      if (trigger.endsWith("-slider")) return [slider, same()];
      return typeof number === "number" ? [same(), number] : [same(), same()];
    },

    /* After a redraw: the address at once, formulas and code when the hand rests. */
    settle: (late) => {
      if (!late) return same();
      const path = window.location.pathname;
      if (path === "/" || path.endsWith("/" + late.page)) {
        window.history.replaceState(window.history.state, "", "/" + late.page + late.query);
      }
      const set = (id, props) => {
        if (document.getElementById(id)) window.dash_clientside.set_props(id, props);
      };
      set("nav-" + late.page, { href: "/" + late.page + late.query });
      clearTimeout(timers[late.page]);
      timers[late.page] = setTimeout(() => {
        set(late.page + "-formula", { children: late.formula });
        if (document.getElementById(late.page + "-formula")) {
          window.dash_clientside.set_props(late.page + "-code", { code: late.code });
        }
      }, 250);
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
    draw: () => {
      const plot = graph("weights-figure");
      if (!plot || plot.dataset.drawn) return same();
      plot.dataset.drawn = "yes";
      plot.tabIndex = 0;
      plot.setAttribute("role", "slider");
      plot.setAttribute("aria-label", "Weights: left and right choose a position, up and down change it");
      let chosen = 0, last = null;

      const weights = () => Array.from(plot._fullData[0].y, Number);
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
      const place = (event) => {
        const box = plot.getBoundingClientRect();
        const { xaxis, yaxis } = plot._fullLayout;
        const px = event.clientX - box.left - xaxis._offset;
        const py = event.clientY - box.top - yaxis._offset;
        if (px < 0 || px > xaxis._length || py < -20 || py > yaxis._length + 20) return null;
        return [Math.round(xaxis.p2d(px)) - 1, yaxis.p2d(Math.max(0, Math.min(py, yaxis._length)))];
      };
      const lift = (event) => {
        const at = place(event), w = weights();
        if (!at || at[0] < 0 || at[0] >= w.length) return false;
        const size = Math.max(...w.map(Math.abs));
        chosen = at[0];
        w[chosen] = Math.abs(at[1]) < 0.01 * size ? 0 : at[1];
        put(w);
        tell(w);
        return true;
      };
      plot.addEventListener("pointerdown", (event) => {
        if (!lift(event)) return;
        event.preventDefault();
        const move = (e) => lift(e);
        const end = () => {
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
      const dark = window.matchMedia("(prefers-color-scheme: dark)").matches;
      const now = theme || localStorage.getItem("attnlaw-theme") || (dark ? "dark" : "light");
      if (!clicks) return now;
      const next = now === "dark" ? "light" : "dark";
      localStorage.setItem("attnlaw-theme", next);
      return next;
    },
  };
})();
