package browser

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/chromedp/chromedp"
)

// chromium is the shared browser. Each test has its own profile.
var chromium context.Context

// startChromium starts the browser, and installs it first if possible.
func startChromium(ctx context.Context) (stop func(), err error) {
	finder := exec.Command(filepath.Join("..", "..", "tools", "find-chromium.sh"))
	finder.Stderr = os.Stderr
	found, err := finder.Output()
	if err != nil {
		return nil, fmt.Errorf("find a browser: %w", err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(strings.TrimSpace(string(found))),
		chromedp.WindowSize(desktopWidth, desktopHeight),
		chromedp.Flag("hide-scrollbars", true),
		// Otherwise input before the first frame is dropped.
		chromedp.Flag("allow-pre-commit-input", true),
		chromedp.WSURLReadTimeout(2*time.Minute),
	)
	if os.Geteuid() == 0 {
		// The sandbox of Chromium does not work as root.
		options = append(options, chromedp.NoSandbox)
	}
	allocator, stopAllocator := chromedp.NewExecAllocator(ctx, options...)
	browser, stopBrowser := chromedp.NewContext(allocator)
	stop = func() {
		stopBrowser()
		stopAllocator()
	}
	// The first action starts it.
	if err := chromedp.Do(browser); err != nil {
		stop()
		return nil, fmt.Errorf("start %s: %w", strings.TrimSpace(string(found)), err)
	}
	chromium = browser
	return stop, nil
}
