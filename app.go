package setpoint

import (
	"context"
	"flag"

	"github.com/prometheus/client_golang/prometheus"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/setpoint-dev/setpoint/internal/manager/uninstall"
	"github.com/setpoint-dev/setpoint/internal/sdk"
)

// App is the controllers of one program and how they run.
//
// One goroutine sets up an App and runs it once. Run and Main report all problems of the
// setup at once.
type App struct {
	implementation

	commandLine *sdk.CommandLine
}

// implementation gives package sdk access to its implementation of the app.
type implementation = sdk.Implementation

// New returns an App. The name is part of finalizers, annotations, field managers and the
// lease, so a renamed app is another app. It has lower-case letters, digits and dashes,
// at most 40.
func New(name string) *App {
	app := sdk.NewApp(name)
	return &App{sdk.NewImplementation(app), sdk.NewCommandLine(app)}
}

// InstallCRDs adds CustomResourceDefinitions as YAML or JSON; one text may hold several.
// The app creates or upgrades them before it starts, and waits until they are
// established. It refuses an upgrade that could break stored objects, unless
// Options.AllowBreakingCRDs is set.
func (a *App) InstallCRDs(texts ...[]byte) { sdk.Of(a).InstallCRDs(texts...) }

// LifecycleFunc runs once, before or after the controllers.
type LifecycleFunc func(ctx context.Context) error

// OnStart runs fn in every replica when the program starts, before it connects to the
// cluster. An error stops the program.
func (a *App) OnStart(fn LifecycleFunc) { sdk.Of(a).OnStart(fn) }

// OnStop runs fn after all controllers have stopped. Its context is not the cancelled
// one, and ends after 10 seconds.
func (a *App) OnStop(fn LifecycleFunc) { sdk.Of(a).OnStop(fn) }

// HealthCheckFunc returns why a program is not healthy or not ready; nil if it is. It must
// be fast and respect its context, which ends after 5 seconds.
type HealthCheckFunc func(ctx context.Context) error

// AddHealthCheck adds a check to /healthz, which responds 503 with the error of the check:
// a kubelet then restarts the program. A program that is not healthy is not ready either.
func (a *App) AddHealthCheck(name string, check HealthCheckFunc) {
	sdk.Of(a).AddHealthCheck(name, check)
}

// AddReadyCheck adds a check to /readyz, which responds 503 with the error of the check: no
// Service sends requests to the program then.
func (a *App) AddReadyCheck(name string, check HealthCheckFunc) { sdk.Of(a).AddReadyCheck(name, check) }

// Metrics registers metrics of the program, which /metrics serves beside those of Setpoint
// and of the Go runtime: see promauto.With. Their names must not begin with "setpoint_".
func (a *App) Metrics() prometheus.Registerer { return sdk.Of(a).Metrics() }

// Dashboard is a dashboard for UseDashboard: *dashboard.Options of the package dashboard.
type Dashboard interface {
	// RegisterFlags registers the flags of the dashboard for Main.
	RegisterFlags(set *flag.FlagSet)
}

// UseDashboard adds a dashboard to the program, with its flags in Main. The package dashboard
// has one. Programs that do not import that package do not link its pages.
func (a *App) UseDashboard(d Dashboard) { sdk.Of(a).UseDashboard(d) }

// Requires declares permissions in addition to those of the handlers and functions, such
// as those that a Role created by the program grants: the API server lets a program grant
// only permissions that it has. `rbac` prints them in the ClusterRole.
func (a *App) Requires(rules ...rbacv1.PolicyRule) { sdk.Of(a).Requires(rules...) }

// Binds declares the roles that RoleBindings and ClusterRoleBindings of the program may
// refer to. Kind is "Role" or "ClusterRole"; without names they may refer to any, which
// equals all permissions. `rbac` prints the permission to bind them, in the namespaces of
// the app if it is limited to namespaces and writes no ClusterRoleBindings.
func (a *App) Binds(kind string, names ...string) { sdk.Of(a).Binds(kind, names...) }

// Main parses the command line, runs the app until SIGINT or SIGTERM, and exits: with 0
// after a signal, 1 after an error, 2 after wrong usage. Another signal, a
// second later or more, exits immediately. It collects garbage more often while there is much of it, unless $GOGC or
// $GOMEMLIMIT is set.
//
// The flags are those of `setpoint run`, and those of Flags. The command rbac prints the
// permissions of the app as manifests, uninstall removes what it left in the cluster, and
// --help describes all.
func (a *App) Main() { a.commandLine.Main() }

// Flags returns the flag set for the program's own flags, which Parse and Main accept in
// all commands. Add flags before Parse, and read them after it.
func (a *App) Flags() *flag.FlagSet { return a.commandLine.Flags() }

// Parse parses the command line, for a program that needs its flags before it sets up the
// app; otherwise Main does it. It exits on wrong usage and on --help.
func (a *App) Parse() { a.commandLine.ParseArguments() }

// Run runs the app until the context ends, and returns nil when all controllers have
// stopped. It returns an error if the app or the options are invalid, the cluster is
// unreachable, or a function does not return in time.
func (a *App) Run(ctx context.Context, o Options) error { return sdk.Of(a).Run(ctx, o.convert()) }

// RBAC returns the permissions that the app needs with these options as YAML manifests: a
// ServiceAccount in Options.Namespace, roles, and bindings. Permissions in
// Options.Namespaces are Roles, all others a ClusterRole. It includes the Secrets that the
// program fills, empty: that of the inspect token, with Options.InspectAddress, and that of
// the webhook certificates. It assumes
// that the program runs in the cluster, and does not connect to it: the plural of kinds
// that are neither built in nor CRDs of the app is guessed.
func (a *App) RBAC(ctx context.Context, serviceAccount string, o Options) ([]byte, error) {
	return sdk.Of(a).RBAC(ctx, serviceAccount, o.convert())
}

// Uninstall removes the webhook configurations, finalizers, generated Secrets and Leases of an
// app that ran in a cluster with these options. It returns an error while the app runs, which
// would create them again. An app that runs outside the cluster without replicas removes its
// webhook configurations when it stops.
func (a *App) Uninstall(ctx context.Context, o Options) error {
	return sdk.Of(a).Uninstall(ctx, o.convert(), uninstall.Options{})
}
