package userclient

import (
	"crypto/sha256"
	"fmt"
	"sync"

	"k8s.io/client-go/rest"
)

// maxClients is the number of cached clients.
const maxClients = 256

// clientKey identifies a user. It is a digest, since it includes the token.
type clientKey [sha256.Size]byte

func (u User) key() clientKey {
	return sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q %q %v", u.Name, u.UID, u.Groups, u.Extra, u.Token, u.OwnCredentials))
}

// clientCache caches clients. The least recently used is evicted first.
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

// put caches a client, and returns the cached one if another goroutine was faster.
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

// Client is the API server as one user.
type Client struct {
	requester
	cluster *Cluster
	user    User
	access  *accessCache
	serial  uint64
}

// Serial returns a number that is unique in the process. Caches use it as a key without keeping
// the token in memory.
func (c *Client) Serial() uint64 { return c.serial }

func newClient(c *Cluster, u User, client rest.Interface) *Client {
	return &Client{requester: requester{client, c.hangs}, cluster: c, user: u, access: newAccessCache(), serial: c.serials.Add(1)}
}
