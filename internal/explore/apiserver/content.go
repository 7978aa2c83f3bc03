package apiserver

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// content is an object without its resource version. Equal contents are the same pointer as long as they are
// remembered.
type content struct {
	// data is the JSON with managed fields.
	data []byte
	// version is where the resource version goes.
	version int
}

// newContent returns the content of an object.
func (s *Server) newContent(fields map[string]any) (*content, error) {
	data, version, err := encode(fields)
	if err != nil {
		return nil, err
	}
	if _, err := object.Parse(data); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return s.sharedContent(data, version), nil
}

// sharedContent returns the content of an encoded object, the same for the same bytes.
func (s *Server) sharedContent(data []byte, version int) *content {
	key := sha256.Sum256(data)
	if known, found := s.contents.Get(key); found {
		return known.(*content) //nolint:forcetypeassert // The cache has nothing else.
	}
	c := &content{data: data, version: version}
	s.contents.Add(key, c)
	return c
}

// encode encodes an object without the resource version, and with the metadata and in it the managed fields last, as
// objects write them. It returns the place where the version belongs: the beginning of the metadata.
func encode(fields map[string]any) (data []byte, version int, err error) {
	rest, metadata := maps.Clone(fields), map[string]any{}
	if given, is := fields["metadata"].(map[string]any); is {
		metadata = maps.Clone(given)
	}
	managed := metadata["managedFields"]
	delete(rest, "metadata")
	delete(metadata, "resourceVersion")
	delete(metadata, "managedFields")
	if data, err = appendMembers([]byte("{"), rest); err != nil {
		return nil, 0, err
	}
	data = append(data, `,"metadata":{`...)
	version = len(data)
	if data, err = appendMembers(data, metadata); err != nil || managed == nil {
		return append(data, "}}"...), version, err
	}
	tail, err := json.Marshal(managed)
	data = append(append(data, `,"managedFields":`...), tail...)
	return append(data, "}}"...), version, err
}

// appendMembers appends members without the braces.
func appendMembers(data []byte, members map[string]any) ([]byte, error) {
	text, err := json.Marshal(members)
	if err != nil {
		return nil, err
	}
	return append(data, text[1:len(text)-1]...), nil
}

// storedKey identifies a stored object.
type storedKey struct {
	content *content
	version uint64
}

// stored returns the object with a resource version; 0 for none, as after a dry run of a creation.
func (s *Server) stored(k *kind, c *content, version uint64) *Stored {
	key := storedKey{c, version}
	if known, found := s.versions.Get(key); found {
		return known.(*Stored) //nolint:forcetypeassert // The cache has nothing else.
	}
	data := c.data
	if version > 0 {
		member := append(strconv.AppendQuote([]byte(`"resourceVersion":`), strconv.FormatUint(version, 10)), ',')
		data = slices.Concat(c.data[:c.version], member, c.data[c.version:])
	}
	o, err := object.ParseWithManagedFields(data, "", "")
	if err != nil {
		panic(err) // The content has been parsed before.
	}
	stored := &Stored{resource: s.groups[k.GroupKind()].Resource, Object: o, content: c}
	s.versions.Add(key, stored)
	return stored
}

// equal reports whether two contents are equal.
func (c *content) equal(other *content) bool { return c == other || bytes.Equal(c.data, other.data) }
