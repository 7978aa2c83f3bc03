package access

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/asuser"
)

// proxied reports whether a proxy that is believed speaks for a visitor.
func (g *Gate) proxied(r *http.Request) bool {
	if g.options.Headers.User == "" || !g.trusts(r) {
		return false
	}
	return r.Header.Get(g.options.Headers.User) != "" || bearer(r) != ""
}

// bearer is the token that a proxy passes on.
func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// forwarded is who a proxy says that the visitor is. A token says more than a name:
// then requests carry it, and nobody is impersonated.
func (g *Gate) forwarded(r *http.Request) (*Visitor, error) {
	if token := bearer(r); token != "" {
		return g.bearing(r, token)
	}
	if !g.isHost(r.Host) {
		return nil, fmt.Errorf("%w: %q is none of the names that --ui-hosts lists", ErrHost, r.Host)
	}
	headers := g.options.Headers
	u := asuser.User{Name: r.Header.Get(headers.User)}
	if strings.HasPrefix(u.Name, "system:") {
		return nil, fmt.Errorf("%w: %s", ErrSpeaker, u.Name)
	}
	u.Name = headers.UserPrefix + u.Name
	if headers.Groups != "" {
		u.Groups = groups(r.Header.Values(headers.Groups), headers.GroupsPrefix)
	}
	return newVisitor(u, g.csrf(u.Name)), nil
}

// groups are those of a header, which may be there several times, or list several.
// Those of the cluster itself do not count: who may name groups in a directory is not to
// become the cluster's master by it.
func groups(values []string, prefix string) []string {
	var all []string
	for _, value := range values {
		for group := range strings.SplitSeq(value, ",") {
			if group = strings.TrimSpace(group); group != "" {
				all = append(all, group)
			}
		}
	}
	all = slices.DeleteFunc(all, func(group string) bool {
		return strings.HasPrefix(group, "system:") && group != authenticated
	})
	for i, group := range all {
		if group != authenticated {
			all[i] = prefix + group
		}
	}
	return all
}

// authenticated is the group of everyone who is signed in.
const authenticated = "system:authenticated"

// bearing is the visitor of a token that a proxy passes on, known by a session that no
// cookie names.
func (g *Gate) bearing(r *http.Request, token string) (*Visitor, error) {
	id := "bearer:" + g.digest(token)
	now := g.options.Now()
	s := g.sessions.get(id)
	if s == nil || s.claimCheck(now) {
		u, err := g.verify(r.Context(), token)
		if ended := refused(err); ended != nil {
			g.sessions.drop(id)
			return nil, ended
		}
		if err != nil {
			return nil, err
		}
		s = newSession(u, now)
		g.sessions.put(id, s)
	}
	return newVisitor(s.user, g.csrf(s.user.Name)), nil
}

// refused is ErrExpired for a token that is not accepted, and nil for another error.
func refused(err error) error {
	if errors.Is(err, asuser.ErrBadToken) {
		return fmt.Errorf("%w: %w", ErrExpired, err)
	}
	return nil
}
