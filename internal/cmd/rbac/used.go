package rbac

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/cli/processes"
	"github.com/setpoint-dev/setpoint/internal/identity"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/manager/rbac"
)

// used compares the roles of a ServiceAccount with the requests of running processes.
func (r *rbacRun) used(ctx context.Context) error {
	session, err := r.Open(ctx, r.Invocation)
	if err != nil {
		return err
	}
	results, err := processes.QueryAll(ctx, session, func(ctx context.Context, s inspect.Source) (inspect.Requests,
		error) {
		return s.Requests(ctx)
	})
	if err != nil {
		return err
	}
	if len(results) == 0 {
		return errors.New("no process could be read")
	}
	account, err := r.usedAccount(results)
	if err != nil {
		return err
	}
	var requests []inspect.Request
	since := time.Now()
	for _, result := range results {
		requests = append(requests, result.Value.By(account.UserFor(""))...)
		if result.Value.Since.Before(since) {
			since = result.Value.Since
		}
	}
	granted, err := r.needs.Granted(ctx, account)
	for i := range granted {
		granted[i].ReadsReviewed = !slices.ContainsFunc(results,
			func(result inspect.Result[inspect.Requests]) bool { return result.Value.User == account.UserFor("") })
	}
	if err == nil && len(granted) == 0 {
		err = fmt.Errorf("no role is bound to the ServiceAccount %s", account)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(r.Stderr, "Requests as %s since %s. Rare ones may come later: deletions, errors, another leader.\n",
		account, since.UTC().Format(time.RFC3339))
	return r.printUsed(granted, requests)
}

// usedAccount returns the ServiceAccount of the flag, or that of the processes.
func (r *rbacRun) usedAccount(results []inspect.Result[inspect.Requests]) (identity.Account, error) {
	if r.account != "" {
		return identity.Parse(r.account)
	}
	var users []string
	for _, result := range results {
		if user := result.Value.User; !slices.Contains(users, user) {
			users = append(users, user)
		}
	}
	slices.Sort(users)
	if account, is := identity.OfUser(users[0]); is && len(users) == 1 {
		return account, nil
	}
	return identity.Account{}, command.UsageErrorf("the processes run as %s; select a ServiceAccount with --service-account",
		strings.Join(users, ", "))
}

// printUsed prints when each granted verb was used, or the roles without the unused ones.
func (r *rbacRun) printUsed(granted []rbac.Granted, requests []inspect.Request) error {
	if r.formatSet {
		return r.printRoles(rbac.WithoutUnused(granted, requests))
	}
	t := &output.Table{Headers: []string{"ROLE", "NAMESPACE", "GRANTED", "LAST USED"}, Color: output.WantsColor(r.Stdout)}
	var rows []output.Row
	for _, one := range rbac.Used(granted, requests) {
		what := one.Verb + " " + one.Resource
		if len(one.Names) > 0 {
			what += " " + strings.Join(one.Names, ",")
		}
		last := "never"
		switch {
		case !one.Last.IsZero():
			last = output.Ago(one.Last, time.Now()) + " ago"
		case one.Reviewed:
			last = "for hooks"
		}
		cells := []string{one.Role, cmp.Or(one.Namespace, "all"), what, last}
		rows = append(rows, output.Row{Headers: t.Headers, Cells: cells, Key: strings.Join(cells[:3], "\t"), Value: one})
	}
	return t.Write(r.Stdout, rows)
}
