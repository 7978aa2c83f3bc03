package cli

import (
	"github.com/spf13/pflag"

	"github.com/setpoint-dev/setpoint/dashboard"
)

// registerDashboard adds the flags of the window.
func registerDashboard(set *pflag.FlagSet, w *dashboard.Options) {
	set.StringVar(&w.Address, "dashboard-address", "", "`address` of the window, the pages in which one sees what controllers do; empty for nowhere")
	set.StringVar(&w.CertFile, "dashboard-tls-cert-file", "", "`file` of its certificate, in PEM; HTTP without one")
	set.StringVar(&w.KeyFile, "dashboard-tls-key-file", "", "`file` of the key of that certificate, in PEM")
	set.StringVar(&w.UserHeader, "dashboard-user-header", "", "`header` in which a proxy says who visits, such as X-Forwarded-User; visitors sign in by a token without one")
	set.StringVar(&w.GroupsHeader, "dashboard-groups-header", "", "`header` in which it says what groups they are in, such as X-Forwarded-Groups")
	set.StringVar(&w.UserPrefix, "dashboard-user-prefix", "", "`prefix` of the names of such users in the cluster, such as sso:")
	set.StringVar(&w.GroupsPrefix, "dashboard-groups-prefix", "", "`prefix` of the names of such groups in the cluster, such as sso:")
	set.StringSliceVar(&w.TrustedProxies, "dashboard-trusted-proxies", nil, "`addresses` of such proxies, or networks, with commas between; loopback if empty")
	set.StringSliceVar(&w.Hosts, "dashboard-hosts", nil, "`names` under which the window is visited through such a proxy, with commas between; localhost and addresses alone if empty")
	set.DurationVar(&w.SessionLifetime, "dashboard-session-lifetime", 0, "how long one who has signed in stays so; 12 hours if 0")
}
