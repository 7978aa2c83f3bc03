// Applies the user's choice of light or dark before the first paint.
(() => {
  try {
    const theme = localStorage.getItem("setpoint-theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch { /* Without storage, the system setting applies. */ }
})();
