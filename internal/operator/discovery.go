package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/served"
)

const (
	// discoveryInterval is how soon a new kind is noticed. Unchanged discovery costs two
	// requests without a body.
	discoveryInterval = 3 * time.Second
	// discoveryAge is how old discovery may be that controllers are compiled with.
	discoveryAge = time.Second
)

// discovery has the kinds that the API server serves.
type discovery struct {
	client *http.Client
	server string
	log    *slog.Logger
	// fixed means that there is no API server, so the kinds stay as they are.
	fixed bool
	// changed are notified of changed kinds.
	changed []chan struct{}

	mu        sync.Mutex
	groups    [2]discovered // of /api and /apis
	fetchedAt time.Time
}

// discovered is a part of discovery.
type discovered struct {
	etag  string
	kinds []served.Kind
}

// newDiscovery returns the discovery of a cluster; without a configuration, that of fixed kinds.
func newDiscovery(config *rest.Config, fixed []served.Kind, log *slog.Logger) (*discovery, error) {
	if config == nil {
		return &discovery{fixed: true, groups: [2]discovered{{kinds: fixed}}}, nil
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("create a client for the cluster: %w", err)
	}
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("create a client for the cluster: %w", err)
	}
	return &discovery{client: client, server: strings.TrimSuffix(server.String(), "/"), log: log}, nil
}

// notify returns a channel that receives when kinds have changed.
func (d *discovery) notify() <-chan struct{} {
	changed := make(chan struct{}, 1)
	d.changed = append(d.changed, changed)
	return changed
}

func (d *discovery) kinds(ctx context.Context) ([]served.Kind, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.fixed && time.Since(d.fetchedAt) > discoveryAge {
		changed, err := d.fetch(ctx)
		if changed {
			d.sendChanged() // Other controllers were compiled with the former kinds.
		}
		if err != nil {
			return nil, err
		}
	}
	return slices.Concat(d.groups[0].kinds, d.groups[1].kinds), nil
}

// Run notifies of changed kinds until the context ends.
func (d *discovery) Run(ctx context.Context) {
	if len(d.changed) == 0 {
		return
	}
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		d.mu.Lock()
		changed, err := d.fetch(ctx)
		d.mu.Unlock()
		if err != nil && ctx.Err() == nil {
			d.log.Debug("kinds not discovered; retrying", "error", err.Error())
		}
		if changed {
			d.sendChanged()
		}
	}, discoveryInterval)
}

func (d *discovery) sendChanged() {
	for _, each := range d.changed {
		select {
		case each <- struct{}{}:
		default: // A notification is pending.
		}
	}
}

// fetch reads discovery, and reports whether it has changed.
func (d *discovery) fetch(ctx context.Context) (changed bool, err error) {
	for i, path := range []string{"/api", "/apis"} {
		part, err := d.get(ctx, path, d.groups[i].etag)
		if err != nil {
			return changed, fmt.Errorf("discover kinds: %w", err)
		}
		if part != nil {
			d.groups[i], changed = *part, true
		}
	}
	d.fetchedAt = time.Now()
	return changed, nil
}

// get returns a part of discovery; nil if it is that of the ETag.
func (d *discovery) get(ctx context.Context, path, etag string) (*discovered, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, d.server+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", served.MediaType)
	if etag != "" {
		request.Header.Set("If-None-Match", etag)
	}
	response, err := d.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusNotModified:
		return nil, nil //nolint:nilnil // There is nothing new.
	case http.StatusOK:
	default:
		return nil, fmt.Errorf("GET %s returned %s", path, response.Status)
	}
	var groups apidiscovery.APIGroupDiscoveryList
	data, err := io.ReadAll(response.Body)
	if err == nil {
		err = json.Unmarshal(data, &groups)
	}
	if err != nil {
		return nil, fmt.Errorf("GET %s: %w", path, err)
	}
	return &discovered{etag: response.Header.Get("ETag"), kinds: served.KindsOf(&groups)}, nil
}
