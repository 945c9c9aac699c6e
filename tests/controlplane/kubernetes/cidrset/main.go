// Command cidrset measures how long Kubernetes' own allocator needs for a number of
// pod CIDRs, as a peer to compare cilium-ipam's planner with.
//
// It prints one line of JSON: {"blocks":N,"nanoseconds":T,"peak_rss_bytes":R}.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"k8s.io/kubernetes/pkg/controller/nodeipam/ipam/cidrset"
)

// Every set is one /8 cut into /24s. Kubernetes allows 65,536 blocks at the most for
// IPv6; this keeps to the same for IPv4, as a larger set costs more per block.
const (
	blockBits    = 24
	setBits      = 8
	blocksPerSet = 1 << (blockBits - setBits)
)

type result struct {
	Blocks       int   `json:"blocks"`
	Nanoseconds  int64 `json:"nanoseconds"`
	PeakRSSBytes int64 `json:"peak_rss_bytes"`
}

func main() {
	blocks := flag.Int("blocks", 1_000_000, "how many blocks to allocate")
	fragmented := flag.Bool("fragmented", false, "occupy every other block first")
	flag.Parse()
	measured, err := run(*blocks, *fragmented)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(measured)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cidrset:", err)
		os.Exit(1)
	}
}

func run(blocks int, fragmented bool) (result, error) {
	free := blocksPerSet
	if fragmented {
		free /= 2
	}
	sets, err := newSets((blocks + free - 1) / free)
	if err != nil {
		return result{}, err
	}
	if fragmented {
		if err := occupyEveryOther(sets); err != nil {
			return result{}, err
		}
	}
	// As the controller does, the caller keeps what it was given.
	allocated := make([]*net.IPNet, 0, blocks)
	start := time.Now()
	for i := range blocks {
		block, err := sets[i/free].AllocateNext()
		if err != nil {
			return result{}, fmt.Errorf("block %d: %w", i, err)
		}
		allocated = append(allocated, block)
	}
	took := time.Since(start)
	rss, err := peakRSS()
	return result{len(allocated), took.Nanoseconds(), rss}, err
}

// newSets gives every set a /8 of its own.
func newSets(count int) ([]*cidrset.CidrSet, error) {
	if count > 256 {
		return nil, fmt.Errorf("%d sets of /8 do not fit into IPv4", count)
	}
	sets := make([]*cidrset.CidrSet, 0, count)
	for i := range count {
		set, err := cidrset.NewCIDRSet(&net.IPNet{
			IP:   net.IPv4(byte(i), 0, 0, 0).To4(),
			Mask: net.CIDRMask(setBits, 32),
		}, blockBits)
		if err != nil {
			return nil, err
		}
		sets = append(sets, set)
	}
	return sets, nil
}

func occupyEveryOther(sets []*cidrset.CidrSet) error {
	for i, set := range sets {
		for block := 0; block < blocksPerSet; block += 2 {
			taken := &net.IPNet{
				IP:   net.IPv4(byte(i), byte(block>>8), byte(block), 0).To4(),
				Mask: net.CIDRMask(blockBits, 32),
			}
			if err := set.Occupy(taken); err != nil {
				return err
			}
		}
	}
	return nil
}

// peakRSS asks /proc: getrusage would count the memory of the parent before exec, too.
func peakRSS() (int64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, rest, found := strings.Cut(string(status), "VmHWM:")
	if !found {
		return 0, errors.New("no VmHWM in /proc/self/status")
	}
	var kibibytes int64
	if _, err := fmt.Sscan(rest, &kibibytes); err != nil {
		return 0, err
	}
	return kibibytes * 1024, nil
}
