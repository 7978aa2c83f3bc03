package userclient

import (
	"crypto/sha256"
	"fmt"

	"k8s.io/apimachinery/pkg/util/cache"
)

// maxClients is the number of cached clients.
const maxClients = 256

// clientKey identifies a user. It is a digest, since it includes the token.
type clientKey [sha256.Size]byte

func (u User) key() clientKey {
	return sha256.Sum256(fmt.Appendf(nil, "%q %q %q %v", u.Name, u.Groups, u.Token, u.OwnCredentials))
}

// Client is the API server as one user.
type Client struct {
	requester
	cluster *Cluster
	user    User
	// access has the accessResults of accessKeys.
	access *cache.LRUExpireCache
	serial uint64
}

// Serial returns a number that is unique in the process. Caches use it as a key without keeping
// the token in memory.
func (c *Client) Serial() uint64 { return c.serial }
