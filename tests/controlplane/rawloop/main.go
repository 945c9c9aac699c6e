// Command rawloop sends PATCHes to an API server as fast as it takes them, and nothing else: the
// limit of any program that writes the same. It reads them from standard input, one JSON object a
// line, and prints one line of JSON.
package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Kubeconfig is the part of the testbed's kubeconfigs that is read; they are JSON.
type Kubeconfig struct {
	Clusters []struct {
		Cluster struct {
			Server    string `json:"server"`
			Authority []byte `json:"certificate-authority-data"`
		} `json:"cluster"`
	} `json:"clusters"`
	Users []struct {
		User struct {
			Token string `json:"token"`
		} `json:"user"`
	} `json:"users"`
}

// Patch is one write.
type Patch struct {
	Path string          `json:"path"`
	Body json.RawMessage `json:"body"`
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "the testbed's kubeconfig")
	connections := flag.Int("connections", 16, "requests in flight; with HTTP/1.1 each has a connection")
	version := flag.Int("http", 1, "HTTP version: 1 or 2; with 2, all requests share one connection")
	flag.Parse()
	if err := run(*kubeconfig, *connections, *version); err != nil {
		fmt.Fprintln(os.Stderr, "rawloop:", err)
		os.Exit(1)
	}
}

func run(kubeconfig string, connections, version int) error {
	server, err := open(kubeconfig, connections, version)
	if err != nil {
		return err
	}
	patches, err := read(os.Stdin)
	if err != nil {
		return err
	}
	// Connections are warm.
	if err := server.each(connections, connections, func(int) error {
		return server.send(http.MethodGet, "/version", nil)
	}); err != nil {
		return err
	}
	start := time.Now()
	if err := server.each(len(patches), connections, func(index int) error {
		return server.send(http.MethodPatch, patches[index].Path, patches[index].Body)
	}); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]float64{
		"seconds": time.Since(start).Seconds(),
	})
}

func read(from io.Reader) ([]Patch, error) {
	var patches []Patch
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		var patch Patch
		if err := json.Unmarshal(lines.Bytes(), &patch); err != nil {
			return nil, err
		}
		patches = append(patches, patch)
	}
	return patches, lines.Err()
}

// Server is an API server and how it is spoken to.
type Server struct {
	url    string
	token  string
	client *http.Client
	major  int
}

func open(kubeconfig string, connections, version int) (*Server, error) {
	text, err := os.ReadFile(kubeconfig)
	if err != nil {
		return nil, err
	}
	var config Kubeconfig
	if err := json.Unmarshal(text, &config); err != nil {
		return nil, err
	}
	if len(config.Clusters) != 1 || len(config.Users) != 1 {
		return nil, fmt.Errorf("not a kubeconfig of the testbed")
	}
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(config.Clusters[0].Cluster.Authority)
	protocols := new(http.Protocols)
	protocols.SetHTTP1(version == 1)
	protocols.SetHTTP2(version == 2)
	transport := &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: authorities},
		Protocols:           protocols,
		MaxIdleConnsPerHost: connections,
		MaxConnsPerHost:     connections,
		DisableCompression:  true,
	}
	return &Server{
		url:    strings.TrimSuffix(config.Clusters[0].Cluster.Server, "/"),
		token:  config.Users[0].User.Token,
		client: &http.Client{Transport: transport},
		major:  version,
	}, nil
}

// each calls action for the numbers below count, from as many goroutines, until one fails.
func (server *Server) each(count, workers int, action func(int) error) error {
	var next atomic.Int64
	var group sync.WaitGroup
	failures := make(chan error, workers)
	for range min(workers, count) {
		group.Go(func() {
			for {
				index := int(next.Add(1)) - 1
				if index >= count {
					return
				}
				if err := action(index); err != nil {
					next.Store(int64(count))
					failures <- err
					return
				}
			}
		})
	}
	group.Wait()
	close(failures)
	return <-failures
}

func (server *Server) send(method, path string, body []byte) error {
	request, err := http.NewRequest(method, server.url+path, strings.NewReader(string(body)))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+server.token)
	request.Header.Set("Accept", "application/json")
	if method == http.MethodPatch {
		request.Header.Set("Content-Type", "application/merge-patch+json")
		request.Header.Set("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
	}
	answer, err := server.client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return err
	}
	if answer.ProtoMajor != server.major {
		return fmt.Errorf("the server speaks HTTP/%d", answer.ProtoMajor)
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s", method, path, answer.Status)
	}
	return nil
}
