//go:build linux

// /proc tells which process listens.

package e2e

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/setpoint-dev/setpoint/internal/must"
)

// session has one of everything that listens.
const session = `
-- project/setpoint.yaml --
apply: [crd.yaml, controllers.yaml, object.yaml]
processes:
- {name: hook, command: [python3, -u, hook.py, "{port}"], service: hook.web}
-- project/hook.py --
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        body = b'{"children": []}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
-- project/crd.yaml --
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: tenants.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {kind: Tenant, plural: tenants, singular: tenant}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
-- project/controllers.yaml --
apiVersion: setpoint.dev/v1alpha1
kind: CompositeController
metadata: {name: tenants}
spec:
  generateSelector: true
  parentResource: {apiVersion: example.com/v1, resource: tenants}
  hooks: {sync: {webhook: {url: http://hook.web/}}}
---
apiVersion: setpoint.dev/v1alpha1
kind: AdmissionController
metadata: {name: names}
spec:
  webhooks:
  - name: names
    type: Validate
    rules: [{apiVersion: example.com/v1, resource: tenants, operations: [CREATE]}]
    inline: {language: JavaScript, source: "export function review() { return {allowed: true} }"}
-- project/object.yaml --
{apiVersion: example.com/v1, kind: Tenant, metadata: {name: web}}
-- operator/operator.py --
import kopf

@kopf.on.create("example.com", "v1", "tenants")
def created(**_):
    pass
`

// listener is what a process of the session listens at.
type listener struct {
	netip.AddrPort

	// of is the command line of the process.
	of string
}

// otherUser tries what another user of the machine can: connect to ports, without any credentials, and read files.
type otherUser struct {
	t     *testing.T
	dir   string
	ports []listener
	http  *http.Client
}

// TestOtherUsersOfTheMachine has a subtest for each row of the table in docs/security.md.
func TestOtherUsersOfTheMachine(t *testing.T) {
	u := startSession(t)
	rows := map[string]func(*testing.T){
		"API server": u.apiServer, "controller manager and scheduler": u.controllerManagers, "etcd": u.etcd, "kwok": u.kwok,
		"dashboard": u.dashboard, "inspect endpoints": u.inspect, "webhook server": u.webhooks, "health of an operator": u.health,
		"hook processes": u.hooks, "processes of inline and exec hooks": u.pipes, "debug ports": u.debug, "files": u.files,
	}
	document := must.Get(os.ReadFile("../../docs/security.md")).In(t)
	_, table, _ := bytes.Cut(document, []byte("## What other users of the machine can do"))
	for _, row := range regexp.MustCompile(`(?m)^\| \*\*(.+?)\*\* \|`).FindAllSubmatch(table, -1) {
		name := string(row[1])
		test := rows[name]
		if test == nil {
			t.Errorf("docs/security.md has a row %q, which no test tests", name)
			continue
		}
		delete(rows, name)
		t.Run(name, test)
	}
	for name := range rows {
		t.Errorf("docs/security.md has no row %q", name)
	}
	for _, left := range u.ports {
		t.Errorf("docs/security.md has no row for %s of %s", left, left.of)
	}
}

func startSession(t *testing.T) *otherUser {
	dir := must.Get(os.MkdirTemp("", "setpoint-others-")).In(t) //nolint:usetesting // Others may not enter the folders of t.TempDir.
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	u := &otherUser{t: t, dir: dir, http: &http.Client{
		Timeout:       time.Minute,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
	}}
	// As open as the folders of a careless user.
	for _, folder := range []string{"", "data", "logs", "tmp", "cache", "project", "operator"} {
		must.Succeed(t, errors.Join(os.MkdirAll(filepath.Join(dir, folder), 0o755), os.Chmod(filepath.Join(dir, folder), 0o755)))
	}
	for _, file := range txtar.Parse([]byte(session)).Files {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, file.Name), file.Data, 0o600))
	}
	t.Setenv("TMPDIR", filepath.Join(dir, "tmp"))
	t.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache"))
	t.Setenv("SETPOINT_INSPECT_DIR", "")
	t.Setenv("SETPOINT_HOOKS", "") // Of the session of all tests.
	at := func(name string) string { return filepath.Join(dir, name) }
	p := start(t, at("session.log"), os.Getenv("SETPOINT"), "dev", "--data-dir", at("data"), "--kubeconfig", at("kubeconfig"), "--process-logs", at("logs"),
		at("project"), at("operator/operator.py"))
	u.until(func() error { return contains(at("session.log"), "Ready after") })
	t.Setenv("KUBECONFIG", at("kubeconfig"))
	u.until(func() error {
		out, err := exec.Command(os.Getenv("SETPOINT"), "kubectl", "get", "admissioncontrollers.setpoint.dev,compositecontrollers.setpoint.dev",
			"-o", `jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}`).CombinedOutput()
		if err == nil && string(out) != "True "+"True" {
			err = errors.New(string(out))
		}
		return err
	})
	u.ports = listening(t, p.cmd.Process.Pid)
	return u
}

func contains(file, text string) error {
	content, err := os.ReadFile(file)
	if err == nil && !strings.Contains(string(content), text) {
		err = fmt.Errorf("no %q in:\n%s", text, content)
	}
	return err
}

func (u *otherUser) until(check func() error) {
	u.t.Helper()
	end := time.Now().Add(5 * time.Minute)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			u.t.Fatal(err)
		}
		<-time.After(100 * time.Millisecond)
	}
}

// listening returns the TCP ports at which a process and its descendants listen.
func listening(t *testing.T, root int) (all []listener) {
	t.Helper()
	family := map[int]bool{root: true}
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for range 10 { // Generations.
		for _, path := range processes {
			stat, _ := os.ReadFile(path + "/stat") // It may have ended.
			_, rest, _ := strings.Cut(string(stat), ") ")
			fields := strings.Fields(rest)
			if len(fields) < 2 {
				continue
			}
			pid, _ := strconv.Atoi(filepath.Base(path))
			parent, _ := strconv.Atoi(fields[1])
			family[pid] = family[pid] || family[parent]
		}
	}
	sockets := map[string]string{}
	for pid, member := range family {
		links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		for _, link := range links {
			if target, err := os.Readlink(link); member && err == nil {
				command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
				sockets[target] = strings.ReplaceAll(string(command), "\x00", " ")
			}
		}
	}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, _ := os.ReadFile(table) // A machine may have no IPv6.
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line)
			const listens = "0A"
			if len(fields) < 10 || fields[3] != listens || sockets["socket:["+fields[9]+"]"] == "" {
				continue
			}
			all = append(all, listener{addressOf(t, fields[1]), sockets["socket:["+fields[9]+"]"]})
		}
	}
	if len(all) == 0 {
		t.Fatal("nothing listens")
	}
	for _, each := range all {
		if !each.Addr().IsLoopback() {
			t.Errorf("%s is not an address of loopback: %s", each, each.of)
		}
	}
	return all
}

// addressOf reads an address of /proc/net/tcp: words in the byte order of the machine, and the port.
func addressOf(t *testing.T, text string) netip.AddrPort {
	t.Helper()
	words, number, _ := strings.Cut(text, ":")
	var address []byte
	for ; len(words) >= 8; words = words[8:] {
		word := must.Get(strconv.ParseUint(words[:8], 16, 32)).In(t)
		address = append(address, byte(word), byte(word>>8), byte(word>>16), byte(word>>24))
	}
	found, _ := netip.AddrFromSlice(address)
	n := must.Get(strconv.ParseUint(number, 16, 16)).In(t)
	return netip.AddrPortFrom(found.Unmap(), uint16(n))
}

// component takes the ports of a component, which is a process of our binary or, for another version of Kubernetes, of its own.
func (u *otherUser) component(t *testing.T, name string) (found []listener) {
	t.Helper()
	return append(u.take(t, "_component "+name+" "), u.take(t, "/"+name+" ")...)
}

// take returns the ports of processes whose command line has a text, and removes them from those that are left.
func (u *otherUser) take(t *testing.T, text string) (found []listener) {
	t.Helper()
	u.ports = slices.DeleteFunc(u.ports, func(p listener) bool {
		is := strings.Contains(p.of, text)
		if is {
			found = append(found, p)
		}
		return is
	})
	return found
}

// request makes a request without credentials, and returns the status and the body.
func (u *otherUser) request(t *testing.T, method, url string, headers ...string) (int, string) {
	t.Helper()
	r := must.Get(http.NewRequestWithContext(t.Context(), method, url, strings.NewReader("a=b"))).In(t)
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		r.Header.Set(name, value)
	}
	response, err := u.http.Do(r)
	must.Succeed(t, err)
	defer response.Body.Close()
	body := must.Get(io.ReadAll(response.Body)).In(t)
	return response.StatusCode, string(body)
}

// expect fails unless each path has the status.
func (u *otherUser) expect(t *testing.T, scheme string, at listener, statuses map[string]int) {
	t.Helper()
	for path, want := range statuses {
		method, path, _ := strings.Cut(path, " ")
		if got, body := u.request(t, method, scheme+"://"+at.String()+path); got != want {
			t.Errorf("%s %s: %d, not %d: %.200s", method, path, got, want, body)
		}
	}
}

func (u *otherUser) apiServer(t *testing.T) {
	found := u.component(t, "kube-apiserver")
	if len(found) != 1 {
		t.Fatalf("%v", found)
	}
	for _, p := range found {
		u.expect(t, "https", p, map[string]int{
			"GET /api/v1/secrets": 403, "GET /apis": 403, "POST /apis/setpoint.dev/v1alpha1/compositecontrollers": 403, "GET /metrics": 403,
			"GET /version": 200, "GET /livez": 200,
		})
	}
}

func (u *otherUser) controllerManagers(t *testing.T) {
	found := append(u.component(t, "kube-controller-manager"), u.component(t, "kube-scheduler")...)
	if len(found) != 2 {
		t.Fatalf("%v", found)
	}
	for _, p := range found {
		u.expect(t, "https", p, map[string]int{"GET /metrics": 403, "GET /configz": 403, "GET /healthz": 200})
	}
}

// etcd has a socket, in a private folder.
func (u *otherUser) etcd(t *testing.T) {
	if ports := u.component(t, "etcd"); len(ports) > 0 {
		t.Errorf("%v", ports)
	}
	socket := filepath.Join(u.dir, "data", "run", "etcd.sock")
	if info, err := os.Stat(socket); err != nil || info.Mode().Type() != fs.ModeSocket || isOpen(t, u.dir, socket, syscall.S_IRWXO) {
		t.Errorf("%v, %v", info, err)
	}
}

func (u *otherUser) kwok(t *testing.T) {
	if ports := u.component(t, "kwok"); len(ports) > 0 {
		t.Errorf("%v", ports)
	}
}

// dashboard belongs to who knows the token: pages and forms of others lead to the page for signing in.
func (u *otherUser) dashboard(t *testing.T) {
	log := must.Get(os.ReadFile(filepath.Join(u.dir, "session.log"))).In(t)
	printed := regexp.MustCompile(`dashboard +(http://(\S+)/\?token=\S+)`).FindSubmatch(log)
	if printed == nil {
		t.Fatalf("%s", log)
	}
	i := slices.IndexFunc(u.ports, func(p listener) bool { return p.String() == string(printed[2]) })
	if i < 0 {
		t.Fatalf("%s is not among %v", printed[2], u.ports)
	}
	p := u.ports[i]
	u.ports = slices.Delete(u.ports, i, i+1)
	u.expect(t, "http", p, map[string]int{
		"GET /": 303, "GET /?token=guess": 303, "GET /resources/secrets": 303, "GET /resources/compositecontrollers.setpoint.dev/new": 303,
		"POST /resources/compositecontrollers.setpoint.dev/new": 303, "POST /signin": 401,
	})
	if _, body := u.request(t, "GET", "http://"+p.String()+"/signin"); strings.Contains(body, "tenants") || strings.Contains(body, "csrf") {
		t.Errorf("the page for signing in says more than it should:\n%s", body)
	}
	if status, body := u.request(t, "GET", string(printed[1])); status != 303 || strings.Contains(body, "signin") {
		t.Errorf("the printed address: %d %s", status, body)
	}
}

// inspect: the commands of the user find the token, others have none.
func (u *otherUser) inspect(t *testing.T) {
	guarded := 0
	u.ports = slices.DeleteFunc(u.ports, func(p listener) bool {
		status, _ := u.request(t, "GET", u.scheme(p)+p.String()+"/v1/process", "Authorization: Bearer guess")
		if status == http.StatusUnauthorized {
			guarded++
		}
		return status == http.StatusUnauthorized
	})
	if guarded != 2 { // The session's, and the operator's.
		t.Errorf("%d endpoints", guarded)
	}
	for _, args := range [][]string{{"get"}, {"why", "tenants.example.com/web"}, {"plan", "spcc/tenants", "web"}} {
		if out, err := exec.Command(os.Getenv("SETPOINT"), args...).CombinedOutput(); err != nil {
			t.Errorf("setpoint %s: %v\n%s", args, err, out)
		}
	}
}

// webhooks: the paths of registrations are secret.
func (u *otherUser) webhooks(t *testing.T) {
	found := slices.DeleteFunc(slices.Clone(u.ports), func(p listener) bool { return !isTLS(p) })
	if len(found) != 1 {
		t.Fatalf("%v", found)
	}
	u.ports = slices.DeleteFunc(u.ports, func(p listener) bool { return p == found[0] })
	u.expect(t, "https", found[0], map[string]int{"POST /": 404, "POST /names": 404, "GET /": 404})
}

// health names no objects.
func (u *otherUser) health(t *testing.T) {
	found := u.take(t, " run --address=")
	if len(found) != 1 {
		t.Fatalf("%v", found)
	}
	u.expect(t, "http", found[0], map[string]int{"GET /healthz": 200, "GET /debug/pprof/": 404})
	if _, body := u.request(t, "GET", "http://"+found[0].String()+"/metrics"); strings.Contains(body, `"web"`) {
		t.Error("the metrics name an object")
	}
}

// hooks are the user's own: Setpoint cannot keep others from a webhook without authentication.
func (u *otherUser) hooks(t *testing.T) {
	found := u.take(t, "hook.py")
	if len(found) != 1 {
		t.Fatalf("%v", found)
	}
	u.expect(t, "http", found[0], map[string]int{"POST /": 200})
}

// pipes: these processes have no port, and neither has the process of the handlers in Python.
func (u *otherUser) pipes(t *testing.T) {
	for _, text := range []string{"hook-engine", "python"} {
		if ports := u.take(t, text); len(ports) > 0 {
			t.Errorf("%v", ports)
		}
	}
}

// debug: nothing serves profiles without a token.
func (u *otherUser) debug(t *testing.T) {
	for _, p := range u.ports {
		for _, scheme := range []string{"http", "https"} {
			if response, err := u.http.Get(scheme + "://" + p.String() + "/debug/pprof/"); err == nil {
				response.Body.Close()
				t.Errorf("%s of %s: %s", p, p.of, response.Status)
			}
		}
	}
}

// files: nothing that the session wrote can be read or changed by others.
func (u *otherUser) files(t *testing.T) {
	seen := 0
	err := filepath.WalkDir(u.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Type()&fs.ModeSymlink != 0 {
			return err
		}
		seen++
		if isOpen(t, u.dir, path, syscall.S_IRWXO|syscall.S_IRWXG) {
			t.Errorf("others can open %s", path)
		}
		return nil
	})
	if err != nil || seen < 30 {
		t.Errorf("%d files, %v", seen, err)
	}
	if os.Getuid() != 0 {
		return
	}
	const nobody = 65534
	for _, file := range []string{"kubeconfig", "data/pki/ca.key", "data/run/etcd.sock", "data/cluster.json", "logs/hook.log"} {
		cat := exec.Command("/bin/cat", filepath.Join(u.dir, file))
		cat.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		if out, err := cat.CombinedOutput(); err == nil || !strings.Contains(string(out), "Permission denied") {
			t.Errorf("nobody reads %s: %v, %.100s", file, err, out)
		}
	}
}

// isOpen reports whether others reach a file below a folder and have any of the rights.
func isOpen(t *testing.T, top, path string, rights fs.FileMode) bool {
	t.Helper()
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode().Perm()&rights == 0 {
		return false
	}
	for folder := filepath.Dir(path); folder != filepath.Dir(top); folder = filepath.Dir(folder) {
		if about, err := os.Stat(folder); err != nil || about.Mode().Perm()&rights&0o011 == 0 {
			return false
		}
	}
	return true
}

func (u *otherUser) scheme(p listener) string {
	if isTLS(p) {
		return "https://"
	}
	return "http://"
}

func isTLS(p listener) bool {
	conn, err := tls.Dial("tcp", p.String(), &tls.Config{InsecureSkipVerify: true})
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}
