package test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/cli/client"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/explore"
	"github.com/setpoint-dev/setpoint/internal/explore/realcluster"
)

// testClusterFlags are for the replay of stories on a real API server.
type testClusterFlags struct {
	on bool
	client.ClusterFlags
}

func (f *testClusterFlags) register(c *cobra.Command) {
	c.Flags().BoolVar(&f.on, "on-cluster", false, "replay only stories, also on a real API server, in namespaces that are then removed")
	f.ClusterFlags.Register(c)
}

// check reports flags that do not fit.
func (f *testFlags) checkCluster() error {
	switch on := f.cluster; {
	case !on.on && on.Kubeconfig != "":
		return errors.New("--kubeconfig requires --on-cluster")
	case !on.on && on.Context != "":
		return errors.New("--context requires --on-cluster")
	case on.on && len(f.only) > 0 && !slices.Contains(f.only, partReplay):
		return errors.New("--on-cluster replays stories; omit --only")
	case on.on && len(f.recordings) > 0:
		return errors.New("--on-cluster replays stories; omit --replay, which is for recordings")
	case on.on && f.update:
		return errors.New("--on-cluster replays stories; omit --update, which is for cases")
	}
	return nil
}

// config returns the cluster to replay on; nil for none. It is one of this machine, as that of `setpoint dev`, or one
// that the user names.
func (f *testClusterFlags) config() (*rest.Config, error) {
	if !f.on {
		return nil, nil //nolint:nilnil // Most tests need no cluster.
	}
	found, err := f.Find()
	if err != nil {
		return nil, err
	}
	if f.Context == "" && !isLocal(found.Host) {
		return nil, command.UsageErrorf("--on-cluster creates and removes CRDs and namespaces; name the cluster by --context, since "+
			"%s is not on this machine", found.Host)
	}
	return found.Config, nil
}

// isLocal reports whether an API server is on this machine.
func isLocal(server string) bool {
	at, err := url.Parse(server)
	if err != nil {
		return false
	}
	return at.Hostname() == "localhost" || net.ParseIP(at.Hostname()).IsLoopback()
}

// replayedOn makes the steps of a story on a cluster, too. It returns what came of it there in words.
func (t *testPlan) replayedOn(ctx context.Context, s *story, options explore.Options) (replay *explore.Replayed, there string, err error) {
	place, err := realcluster.Open(ctx, realcluster.Options{Config: t.cluster, CRDs: t.workspace.CRDs, Story: s.Metadata.Name})
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, place.Close(ctx)) }()
	made, err := explore.ReplayOn(ctx, options, s.Story, place)
	if err != nil {
		return nil, "", err
	}
	return &made.Replayed, describeReplay(made), nil
}

// describeReplay says what came of a story on a cluster.
func describeReplay(made *explore.ClusterReplay) string {
	switch {
	case made.Difference != "":
		return made.Difference
	case made.Stopped != "":
		return "Nothing was done on the cluster: not all steps can be made in memory."
	case !made.Violated:
		return "Nothing was done on the cluster: the property is not violated in memory any more."
	}
	text := fmt.Sprintf("The cluster did the same in all %d steps.", made.Made)
	if made.Later > 0 {
		text += fmt.Sprintf(" The property is violated %s later, at rest, which only the replay in memory made.",
			output.Plural(made.Later, "step", "steps"))
	}
	return text
}
