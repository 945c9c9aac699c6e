// Kubernetes' own kubelet without containers: kubemark's hollow kubelet, on loopback and in a folder
// of the test, and the container runtime that it asks.
//
// They are two processes, as on a real node: a kubelet that is restarted finds its containers still
// running.
//
//	hollowkubelet runtime -folder DIR -nodes a,b,c
//	hollowkubelet kubelet -folder DIR -name a -kubeconfig FILE -port N [...]
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	remote "k8s.io/cri-client/pkg"
	fakeremote "k8s.io/cri-client/pkg/fake"
	cadvisortest "k8s.io/kubernetes/pkg/kubelet/cadvisor/testing"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubemark"
	utilflag "k8s.io/kubernetes/pkg/util/flag"
)

const (
	// In the folder of a node.
	socket      = "runtime.sock"
	blockFile   = "block"
	staticPods  = "static"
	callTimeout = 15 * time.Second
)

func main() {
	if len(os.Args) < 2 {
		log.Fatal("usage: hollowkubelet runtime|kubelet ...")
	}
	// kubemark makes its own folders under the temporary folder.
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	folder := flags.String("folder", "", "folder with one folder for each node")
	switch os.Args[1] {
	case "runtime":
		nodes := flags.String("nodes", "", "names of the nodes, with commas")
		_ = flags.Parse(os.Args[2:])
		log.Fatal(runtimes(*folder, strings.Split(*nodes, ",")))
	case "kubelet":
		kubelet := kubelet{folder: folder}
		flags.StringVar(&kubelet.name, "name", "", "name of the node")
		flags.StringVar(&kubelet.kubeconfig, "kubeconfig", "", "file")
		flags.StringVar(&kubelet.providerID, "provider-id", "", "spec.providerID")
		flags.StringVar(&kubelet.labels, "node-labels", "", "key=value, with commas")
		flags.StringVar(&kubelet.cloud, "cloud-provider", "", "empty or external")
		flags.IntVar(&kubelet.port, "port", 0, "port on loopback")
		flags.Var(utilflag.RegisterWithTaintsVar{Value: &kubelet.taints}, "register-with-taints", "key=value:effect, with commas")
		_ = flags.Parse(os.Args[2:])
		log.Fatal(kubelet.run(context.Background()))
	default:
		log.Fatalf("unknown command %q", os.Args[1])
	}
}

type kubelet struct {
	folder                                      *string
	name, kubeconfig, providerID, labels, cloud string
	port                                        int
	taints                                      []v1.Taint
}

func (k *kubelet) run(ctx context.Context) error {
	own := filepath.Join(*k.folder, k.name)
	os.Setenv("TMPDIR", own)
	flags, config := kubemark.GetHollowKubeletConfig(&kubemark.HollowKubeletOptions{
		NodeName: k.name, KubeletPort: k.port, MaxPods: 110, RegisterWithTaints: k.taints, NodeLabels: pairs(k.labels),
	})
	flags.CloudProvider = k.cloud
	config.Address = "127.0.0.1"
	config.ReadOnlyPort = 0
	config.ProviderID = k.providerID
	config.StaticPodPath = filepath.Join(own, staticPods)
	// As kubelets have it; kubemark switches it off.
	config.EnableControllerAttachDetach = true
	if err := os.MkdirAll(config.StaticPodPath, 0o755); err != nil {
		return err
	}
	clients, err := clients(k.kubeconfig, config.NodeStatusUpdateFrequency.Duration)
	if err != nil {
		return err
	}
	endpoint := "unix://" + filepath.Join(own, socket)
	config.ContainerRuntimeEndpoint, config.ImageServiceEndpoint = endpoint, endpoint
	containers, err := remote.NewRemoteRuntimeService(ctx, endpoint, callTimeout, noop.NewTracerProvider(), false)
	if err != nil {
		return err
	}
	images, err := remote.NewRemoteImageService(ctx, endpoint, callTimeout, noop.NewTracerProvider(), false)
	if err != nil {
		return err
	}
	cadvisor := &cadvisortest.Fake{NodeName: k.name}
	kubemark.NewHollowKubelet(flags, config, clients[0], clients[1], cadvisor, images, containers, cm.NewStubContainerManager()).Run(ctx)
	return nil
}

// The client for objects, and the one for signs of life, which must not wait for the other.
func clients(kubeconfig string, timeout time.Duration) ([2]*clientset.Clientset, error) {
	var both [2]*clientset.Clientset
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return both, err
	}
	config.UserAgent = "hollow-kubelet"
	config.QPS, config.Burst = 50, 100
	if both[0], err = clientset.NewForConfig(config); err != nil {
		return both, err
	}
	config.QPS, config.Timeout = -1, timeout
	both[1], err = clientset.NewForConfig(config)
	return both, err
}

func pairs(text string) map[string]string {
	all := map[string]string{}
	for _, pair := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' }) {
		key, value, _ := strings.Cut(pair, "=")
		all[key] = value
	}
	return all
}

// The runtimes of all nodes.
func runtimes(folder string, nodes []string) error {
	errors := make(chan error)
	for _, node := range nodes {
		own := filepath.Join(folder, node)
		if err := os.MkdirAll(own, 0o755); err != nil {
			return err
		}
		runtime := &runtime{RemoteRuntime: fakeremote.NewFakeRemoteRuntime(), folder: own, taken: map[netip.Addr]string{}}
		// Kubelets refuse images without a size.
		runtime.ImageService.SetFakeImageSize(1 << 20)
		server := grpc.NewServer()
		cri.RegisterRuntimeServiceServer(server, runtime)
		cri.RegisterImageServiceServer(server, runtime)
		listener, err := net.Listen("unix", filepath.Join(own, socket))
		if err != nil {
			return err
		}
		go func() { errors <- server.Serve(listener) }()
	}
	fmt.Println("serving")
	return <-errors
}

// A runtime whose network plugin gives Pods addresses of the block in a file. No file means that the
// node's agent does not answer its plugin.
type runtime struct {
	*fakeremote.RemoteRuntime
	folder string

	mutex sync.Mutex
	taken map[netip.Addr]string
	// A plugin's configuration stays once the agent has written it.
	configured bool
}

func (r *runtime) RunPodSandbox(ctx context.Context, request *cri.RunPodSandboxRequest) (*cri.RunPodSandboxResponse, error) {
	if network(request.Config) == cri.NamespaceMode_NODE {
		// Kubelets report the node's own address for these.
		return r.run(ctx, request, "")
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	address, err := r.free()
	if err != nil {
		return nil, err
	}
	response, err := r.run(ctx, request, address.String())
	if err != nil {
		return nil, err
	}
	r.taken[address] = response.PodSandboxId
	return response, nil
}

func (r *runtime) run(ctx context.Context, request *cri.RunPodSandboxRequest, address string) (*cri.RunPodSandboxResponse, error) {
	response, err := r.RemoteRuntime.RunPodSandbox(ctx, request)
	if err != nil {
		return nil, err
	}
	r.RuntimeService.Lock()
	defer r.RuntimeService.Unlock()
	r.RuntimeService.Sandboxes[response.PodSandboxId].Network.Ip = address
	return response, nil
}

func network(config *cri.PodSandboxConfig) cri.NamespaceMode {
	return config.GetLinux().GetSecurityContext().GetNamespaceOptions().GetNetwork()
}

// The lowest address of the block that no sandbox has. The first two are the network's own and the
// node's.
func (r *runtime) free() (netip.Addr, error) {
	block, err := r.block()
	if err != nil {
		return netip.Addr{}, fmt.Errorf("network plugin: the agent does not answer: %w", err)
	}
	address := block.Masked().Addr().Next().Next()
	for ; block.Contains(address); address = address.Next() {
		if _, taken := r.taken[address]; !taken {
			return address, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("network plugin: %s is full", block)
}

func (r *runtime) block() (netip.Prefix, error) {
	text, err := os.ReadFile(filepath.Join(r.folder, blockFile))
	if err != nil {
		return netip.Prefix{}, err
	}
	return netip.ParsePrefix(strings.TrimSpace(string(text)))
}

func (r *runtime) StopPodSandbox(ctx context.Context, request *cri.StopPodSandboxRequest) (*cri.StopPodSandboxResponse, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for address, sandbox := range r.taken {
		if sandbox == request.PodSandboxId {
			delete(r.taken, address)
		}
	}
	return r.RemoteRuntime.StopPodSandbox(ctx, request)
}

func (r *runtime) Status(context.Context, *cri.StatusRequest) (*cri.StatusResponse, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if _, err := r.block(); err == nil {
		r.configured = true
	}
	network := &cri.RuntimeCondition{Type: cri.NetworkReady, Status: r.configured}
	if !r.configured {
		network.Reason, network.Message = "NetworkPluginNotReady", "the agent has not written its configuration"
	}
	ready := &cri.RuntimeCondition{Type: cri.RuntimeReady, Status: true}
	return &cri.StatusResponse{Status: &cri.RuntimeStatus{Conditions: []*cri.RuntimeCondition{ready, network}}}, nil
}
