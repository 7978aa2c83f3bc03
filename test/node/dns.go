//go:build linux

package node

import (
	"context"
	"encoding/binary"
	"net"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// serveDNS answers pods that ask for the address of a Service: NAME.NAMESPACE.svc.cluster.local. There are no other names.
func (n *Node) serveDNS() error {
	server, err := net.ListenPacket("udp", net.JoinHostPort(address, "53"))
	if err != nil {
		return err
	}
	go func() {
		for request := make([]byte, 512); ; {
			length, client, err := server.ReadFrom(request)
			if err != nil {
				return
			}
			if response := n.answer(request[:length]); response != nil {
				_, _ = server.WriteTo(response, client)
			}
		}
	}()
	return nil
}

// Parts of a DNS message: header, question with its name, type and class, and codes.
const (
	dnsHeader    = 12
	dnsTypeA     = 1
	dnsNoName    = 3
	dnsResponse  = 0x8580 // a response with authority, by a server that recurses
	dnsNamePtr   = 0xc000 | dnsHeader
	dnsSeconds   = 5
	dnsClassIN   = 1
	lookupLimit  = 5 * time.Second
	serviceZone  = ".svc.cluster.local"
	ipv4Length   = net.IPv4len
	questionTail = 4
)

// answer returns the response to a request with one question, nil if it is none.
func (n *Node) answer(request []byte) []byte {
	name, end := questionName(request)
	if end == 0 {
		return nil
	}
	response := binary.BigEndian.AppendUint16(nil, binary.BigEndian.Uint16(request))
	question := request[dnsHeader : end+questionTail]
	ip := n.serviceAddress(name)
	code, answers := uint16(0), uint16(0)
	switch {
	case ip == nil:
		code = dnsNoName
	case binary.BigEndian.Uint16(request[end:]) == dnsTypeA:
		answers = 1
	}
	for _, field := range []uint16{dnsResponse | code, 1, answers, 0, 0} {
		response = binary.BigEndian.AppendUint16(response, field)
	}
	response = append(response, question...)
	if answers == 0 {
		return response
	}
	for _, field := range []uint16{dnsNamePtr, dnsTypeA, dnsClassIN, 0, dnsSeconds, ipv4Length} {
		response = binary.BigEndian.AppendUint16(response, field)
	}
	return append(response, ip...)
}

// questionName reads the name in the question, and says where it ends; 0 if there is none.
func questionName(request []byte) (name string, end int) {
	var labels []string
	for i := dnsHeader; i < len(request); {
		length := int(request[i])
		i++
		if length == 0 {
			if i+questionTail > len(request) {
				return "", 0
			}
			return strings.ToLower(strings.Join(labels, ".")), i
		}
		if i+length > len(request) {
			return "", 0
		}
		labels = append(labels, string(request[i:i+length]))
		i += length
	}
	return "", 0
}

// serviceAddress returns the IPv4 address of a Service by its name, nil if there is none.
func (n *Node) serviceAddress(name string) net.IP {
	short, ok := strings.CutSuffix(name, serviceZone)
	service, namespace, two := strings.Cut(short, ".")
	if !ok || !two || strings.Contains(namespace, ".") {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookupLimit)
	defer cancel()
	found, err := n.Client.CoreV1().Services(namespace).Get(ctx, service, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return net.ParseIP(found.Spec.ClusterIP).To4()
}
