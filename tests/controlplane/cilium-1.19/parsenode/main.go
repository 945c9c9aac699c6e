// Command parsenode asks Cilium's own code which pod CIDRs an agent would use for
// each Node.
//
// It reads a JSON array of v1 Nodes, or a NodeList, on stdin and prints one JSON
// object: {"node-name": {"ipv4": "10.0.0.0/24" or null, "ipv6": ...}}.
//
// Cilium up to 1.11 reads the annotations by default; -annotate-k8s-node=true stands
// in for it.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/cilium/cilium/pkg/cidr"
	"github.com/cilium/cilium/pkg/k8s"
	slim_corev1 "github.com/cilium/cilium/pkg/k8s/slim/k8s/api/core/v1"
	"github.com/cilium/cilium/pkg/node/types"
	"github.com/cilium/cilium/pkg/option"
	"github.com/cilium/cilium/pkg/source"
)

type podCIDRs struct {
	IPv4 *string `json:"ipv4"`
	IPv6 *string `json:"ipv6"`
}

func main() {
	annotate := flag.Bool("annotate-k8s-node", false, "Cilium's option of that name")
	flag.Parse()
	option.Config.AnnotateK8sNode = *annotate
	if err := run(os.Stdin, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "parsenode:", err)
		os.Exit(1)
	}
}

func run(stdin io.Reader, stdout, stderr io.Writer) error {
	nodes, err := readNodes(stdin)
	if err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(stderr, nil))
	answers := make(map[string]podCIDRs, len(nodes))
	for i := range nodes {
		parsed := k8s.ParseNode(logger, &nodes[i], source.Kubernetes)
		answers[nodes[i].Name] = answer(parsed)
	}
	return json.NewEncoder(stdout).Encode(answers)
}

func readNodes(stdin io.Reader) ([]slim_corev1.Node, error) {
	text, err := io.ReadAll(stdin)
	if err != nil {
		return nil, err
	}
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("[")) {
		var nodes []slim_corev1.Node
		return nodes, json.Unmarshal(text, &nodes)
	}
	var list struct {
		Items []slim_corev1.Node `json:"items"`
	}
	return list.Items, json.Unmarshal(text, &list)
}

func answer(node *types.Node) podCIDRs {
	return podCIDRs{IPv4: text(node.IPv4AllocCIDR), IPv6: text(node.IPv6AllocCIDR)}
}

func text(block *cidr.CIDR) *string {
	if block == nil {
		return nil
	}
	written := block.String()
	return &written
}
