// Command nodesettings asks Cilium's own code which settings an agent would start
// with on each node: cilium-config, and over it the CiliumNodeConfigs of the node.
//
// It prints one JSON object: {"node-name": {"key": "value"}}.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/cilium/hive/cell"
	"github.com/spf13/pflag"

	"github.com/cilium/cilium/pkg/hive"
	"github.com/cilium/cilium/pkg/k8s/client"
	"github.com/cilium/cilium/pkg/k8s/hostfirewallbypass"
	"github.com/cilium/cilium/pkg/option/resolver"
)

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "nodesettings:", err)
		os.Exit(1)
	}
}

func run(arguments []string, stdout, stderr io.Writer) error {
	flags := pflag.NewFlagSet("nodesettings", pflag.ContinueOnError)
	namespace := flags.String("namespace", "kube-system", "Cilium's namespace")
	nodes := flags.StringSlice("nodes", nil, "names of Nodes")
	answers := map[string]map[string]string{}
	var failure error
	start := func(lifecycle cell.Lifecycle, logger *slog.Logger, clientset client.Clientset, shutdowner hive.Shutdowner) {
		lifecycle.Append(cell.Hook{OnStart: func(ctx cell.HookContext) error {
			failure = resolve(ctx, logger, clientset, *namespace, *nodes, answers)
			shutdowner.Shutdown()
			return nil
		}})
	}
	program := hive.New(client.Cell, hostfirewallbypass.Cell, cell.Invoke(start))
	program.RegisterFlags(flags)
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if err := program.Run(slog.New(slog.NewTextHandler(stderr, nil))); err != nil {
		return err
	}
	if failure != nil {
		return failure
	}
	return json.NewEncoder(stdout).Encode(answers)
}

func resolve(
	ctx context.Context,
	logger *slog.Logger,
	clientset client.Clientset,
	namespace string,
	nodes []string,
	answers map[string]map[string]string,
) error {
	sources := []resolver.ConfigSource{
		{Kind: resolver.KindConfigMap, Namespace: namespace, Name: "cilium-config"},
		{Kind: resolver.KindNodeConfig, Namespace: namespace},
	}
	for _, node := range nodes {
		settings, err := resolver.ResolveConfigurations(ctx, logger, clientset, node, sources, nil, nil)
		if err != nil {
			return err
		}
		answers[node] = settings
	}
	return nil
}
