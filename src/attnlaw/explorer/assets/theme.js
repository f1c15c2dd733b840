/* Loaded before anything is painted: a page that will be dark is never white. */
(() => {
  const dark = window.matchMedia("(prefers-color-scheme: dark)").matches;
  const chosen = localStorage.getItem("mantine-color-scheme-value");
  document.documentElement.dataset.mantineColorScheme = ["light", "dark"].includes(chosen)
    ? chosen : dark ? "dark" : "light";
})();
