package scripttest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/script"
	"github.com/setpoint-dev/setpoint/internal/script/javascript"
	"github.com/setpoint-dev/setpoint/internal/script/starlark"
)

// language is an engine and the ending of its files.
type language struct {
	name, ending string
	engine       script.Engine
}

//nolint:gochecknoglobals // a constant.
var languages = []language{{"JavaScript", ".js", javascript.Engine{}}, {"Starlark", ".star", starlark.Engine{}}}

func (l language) load(t testing.TB, source string) script.Program {
	t.Helper()
	return must.Get(l.engine.Load(script.Files{Entry: "sync" + l.ending, Sources: map[string]string{"sync" + l.ending: source}})).In(t)
}

func call(t testing.TB, p script.Program, request string) string {
	t.Helper()
	response := must.Get(p.Call(newCall(request))).In(t)
	return string(response)
}

func newCall(request string) *script.Call {
	return &script.Call{Function: "sync", Request: []byte(request), Time: time.UnixMilli(1700000000123), Seed: 7}
}

// task is what a process of its own does for a test.
type task struct {
	Language, Source, Request string
	MemoryBytes               int64
}

// inChild makes this test binary such a process.
const inChild = "SCRIPTTEST_TASK"

func TestMain(m *testing.M) {
	if encoded := os.Getenv(inChild); encoded != "" {
		if err := runTask(encoded); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// runTask prints each line of the log, and "response: " and the response.
func runTask(encoded string) error {
	var k task
	if err := json.Unmarshal([]byte(encoded), &k); err != nil {
		return err
	}
	for _, l := range languages {
		if l.name != k.Language {
			continue
		}
		if err := limitMemory(); err != nil {
			return err
		}
		entry := "sync" + l.ending
		p, err := l.engine.Load(script.Files{Entry: entry, Sources: map[string]string{entry: k.Source}, MemoryBytes: k.MemoryBytes})
		if err != nil {
			return err
		}
		c := newCall(cmp.Or(k.Request, "{}"))
		c.Log = func(line string) { fmt.Println("log:", line) }
		response, err := p.Call(c)
		if err != nil {
			return err
		}
		fmt.Println("response:", string(response))
		return nil
	}
	return errors.New("no such language")
}

// command is a process that does a task.
func (k task) command(t *testing.T) *exec.Cmd {
	t.Helper()
	encoded := must.Get(json.Marshal(k)).In(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), inChild+"="+string(encoded), "TZ=Asia/Tokyo", "LANG=tr_TR.UTF-8")
	return cmd
}
