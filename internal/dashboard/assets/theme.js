// Runs before anything is painted: the reader's own choice of light or dark.
(() => {
  try {
    const theme = localStorage.getItem("setpoint-theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch { /* Without storage there is no choice to keep. */ }
})();
