package userclient

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
	return sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q %q %v", u.Name, u.UID, u.Groups, u.Extra, u.Token, u.OwnCredentials))
}

// clientCache are those of users, the latest used last to go.
type clientCache struct {
	mu    sync.Mutex
	clock uint64
	byKey map[clientKey]*cachedClient
}

type cachedClient struct {
	*Client
	used uint64
}

func newClientCache() *clientCache { return &clientCache{byKey: map[clientKey]*cachedClient{}} }

func (c *clientCache) get(key clientKey) *Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	cached := c.byKey[key]
	if cached == nil {
		return nil
	}
	c.clock++
	cached.used = c.clock
	return cached.Client
}

// put keeps a client, unless another was as fast, which is the one to use then.
func (c *clientCache) put(key clientKey, client *Client) *Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cached := c.byKey[key]; cached != nil {
		return cached.Client
	}
	if len(c.byKey) >= maxClients {
		c.dropOldest()
	}
	c.clock++
	c.byKey[key] = &cachedClient{Client: client, used: c.clock}
	return client
}

func (c *clientCache) dropOldest() {
	var oldest clientKey
	used := c.clock + 1
	for key, cached := range c.byKey {
		if cached.used < used {
			oldest, used = key, cached.used
		}
	}
	delete(c.byKey, oldest)
}

func (c *clientCache) drop(key clientKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.byKey, key)
}

// Client is the API server as one user sees it.
type Client struct {
	requester
	cluster *Cluster
	user    User
	access  *accessCache
	serial  uint64
}

// Serial tells this Client from all others of its Cluster, for as long as the process
// runs. Who remembers something by it keeps no token alive.
func (c *Client) Serial() uint64 { return c.serial }

func newClient(c *Cluster, u User, client rest.Interface) *Client {
	return &Client{requester: requester{client, c.hangs}, cluster: c, user: u, access: newAccessCache(), serial: c.serials.Add(1)}
}
