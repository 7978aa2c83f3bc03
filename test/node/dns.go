//go:build linux

package node

import (
	"context"
	"net"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
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
			if response, err := n.answer(request[:length]); err == nil { // What cannot be read gets no response.
				_, _ = server.WriteTo(response, client)
			}
		}
	}()
	return nil
}

// answer returns the response to a request with one question.
func (n *Node) answer(request []byte) ([]byte, error) {
	var parser dnsmessage.Parser
	header, err := parser.Start(request)
	if err != nil {
		return nil, err
	}
	question, err := parser.Question()
	if err != nil {
		return nil, err
	}
	ip := n.serviceAddress(question.Name.String())
	response := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: header.ID, Response: true, Authoritative: true, RecursionDesired: true, RecursionAvailable: true},
		Questions: []dnsmessage.Question{question},
	}
	switch {
	case ip == nil:
		response.RCode = dnsmessage.RCodeNameError
	case question.Type == dnsmessage.TypeA:
		response.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: question.Name, Class: dnsmessage.ClassINET, TTL: 5},
			Body:   &dnsmessage.AResource{A: [net.IPv4len]byte(ip)},
		}}
	}
	return response.Pack()
}

// serviceAddress returns the IPv4 address of a Service by its name, nil if there is none.
func (n *Node) serviceAddress(name string) net.IP {
	short, ok := strings.CutSuffix(strings.ToLower(name), ".svc.cluster.local.")
	service, namespace, two := strings.Cut(short, ".")
	if !ok || !two || strings.Contains(namespace, ".") {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	found, err := n.Client.CoreV1().Services(namespace).Get(ctx, service, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return net.ParseIP(found.Spec.ClusterIP).To4()
}
