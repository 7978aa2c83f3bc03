package asuser

import (
	"crypto/sha256"
	"fmt"
	"sync"

	"k8s.io/client-go/rest"
)

// maxClients is how many users are kept; who comes back later is connected anew.
const maxClients = 256

// clientKey tells users apart; a digest, as tokens are part of it.
type clientKey [sha256.Size]byte

func (u User) key() clientKey {
	return sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q %q %v", u.Name, u.UID, u.Groups, u.Extra, u.Token, u.Own))
}

// clients are those of users, the latest used last to go.
type clients struct {
	mu    sync.Mutex
	clock uint64
	byKey map[clientKey]*keptClient
}

type keptClient struct {
	*Client
	used uint64
}

func newClients() *clients { return &clients{byKey: map[clientKey]*keptClient{}} }

func (c *clients) get(key clientKey) *Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	kept := c.byKey[key]
	if kept == nil {
		return nil
	}
	c.clock++
	kept.used = c.clock
	return kept.Client
}

// put keeps a client, unless another was as fast, which is the one to use then.
func (c *clients) put(key clientKey, client *Client) *Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	if kept := c.byKey[key]; kept != nil {
		return kept.Client
	}
	if len(c.byKey) >= maxClients {
		c.dropOldest()
	}
	c.clock++
	c.byKey[key] = &keptClient{Client: client, used: c.clock}
	return client
}

func (c *clients) dropOldest() {
	var oldest clientKey
	used := c.clock + 1
	for key, kept := range c.byKey {
		if kept.used < used {
			oldest, used = key, kept.used
		}
	}
	delete(c.byKey, oldest)
}

func (c *clients) drop(key clientKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.byKey, key)
}

// Client is the API server as one user sees it.
type Client struct {
	requester
	cluster *Cluster
	user    User
	rights  *rights
	serial  uint64
}

// Serial tells this Client from all others of its Cluster, for as long as the process
// runs. Who remembers something by it keeps no token alive.
func (c *Client) Serial() uint64 { return c.serial }

func newClient(c *Cluster, u User, client rest.Interface) *Client {
	return &Client{requester: requester{client, c.pulse}, cluster: c, user: u, rights: newRights(), serial: c.serials.Add(1)}
}
