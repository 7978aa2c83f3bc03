package dashboard

import (
	"flag"
	"strings"
)

// RegisterFlags registers the flags of a dashboard.
func (o *Options) RegisterFlags(set *flag.FlagSet) {
	set.StringVar(&o.Address, "dashboard-address", "", "listen `address` of the dashboard, such as :8443; empty disables it")
	set.StringVar(&o.CertFile, "dashboard-tls-cert-file", "",
		"`file` with the TLS certificate of the dashboard, in PEM; plain HTTP if empty")
	set.StringVar(&o.KeyFile, "dashboard-tls-key-file", "", "`file` with the private key of that certificate, in PEM")
	set.StringVar(&o.UserHeader, "dashboard-user-header", "", "request `header` in which a proxy sends the user it authenticated, such "+
		"as X-Forwarded-User; users sign in with a token if empty")
	set.StringVar(&o.GroupsHeader, "dashboard-groups-header", "",
		"request `header` in which the proxy sends the user's groups, such as X-Forwarded-Groups")
	set.StringVar(&o.UserPrefix, "dashboard-user-prefix", "", "`prefix` of these user names in the cluster, such as sso:")
	set.StringVar(&o.GroupsPrefix, "dashboard-groups-prefix", "", "`prefix` of these group names in the cluster, such as sso:")
	set.Func("dashboard-trusted-proxies", "comma-separated `addresses` or networks of trusted proxies; loopback if empty",
		listFlag(&o.TrustedProxies))
	set.Func("dashboard-hosts", "comma-separated host `names` that the proxy serves; any but localhost and addresses if empty",
		listFlag(&o.Hosts))
	set.DurationVar(&o.SessionLifetime, "dashboard-session-lifetime", 0, "lifetime of a session; 12 hours if 0")
}

// listFlag parses a comma-separated list.
func listFlag(list *[]string) func(text string) error {
	return func(text string) error {
		for item := range strings.SplitSeq(text, ",") {
			if item = strings.TrimSpace(item); item != "" {
				*list = append(*list, item)
			}
		}
		return nil
	}
}
