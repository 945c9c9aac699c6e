#!/bin/bash
# guest-init.sh: the guest's pid 1 once the disks are there. Runs one cilium-agent as RUN/input of boot.sh says, asks it over its own
# API which pod CIDR it uses, reports, and powers off; or, for boot-node.sh, hands over to node-init.sh. No `set -e`: whatever fails, the guest must
# still report and end.
export PATH=/usr/sbin:/usr/bin HOME=/root

mount -t proc proc /proc
mount -t sysfs sys /sys
for folder in run tmp var root; do mount -t tmpfs tmpfs /$folder; done
ln -s /run /var/run
mkdir -p /run/netns /run/input /run/cilium /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t cgroup2 none /sys/fs/cgroup
mount -t bpf bpffs /sys/fs/bpf

tar -x -C /run/input -f /dev/vdc
node=$(cat /run/input/node)

# The agent loads most of these itself; doing it here keeps a missing one apart from an agent's fault.
for module in virtio_net virtio_console virtio_rng dummy veth vxlan sch_ingress sch_fq cls_bpf act_bpf xfrm_user af_alg algif_hash udp_diag \
  ip_tables iptable_nat iptable_mangle iptable_raw iptable_filter ip6_tables ip6table_nat ip6table_mangle ip6table_raw ip6table_filter \
  xt_comment xt_mark xt_socket xt_TPROXY xt_CT xt_set ip_set ip_set_hash_ip; do
  modprobe "$module" 2> /dev/null || echo "no module $module"
done

# The devices' names are set by the host side; their numbers are not.
port_of() { grep -lx "$1" /sys/class/virtio-ports/*/name | sed 's,.*/\(vport[^/]*\)/name,/dev/\1,'; }
hostname "$node"
ip link set lo up
ip link set eth0 up
ip addr add 10.0.2.15/24 dev eth0
if [ -e /run/input/address ]; then
  # shellcheck source=ci/agent-vm/node-init.sh
  source /agent/node-init
fi

limit=$(cat /run/input/limit)
mapfile -t flags < /run/input/flags
exec 3> "$(port_of report)"
uptime_s() { cut -d' ' -f1 /proc/uptime; }
report() { echo "$*" >&3; echo "$* (up $(uptime_s) s)"; }
report kernel "$(uname -r)"

if [ -e /run/input/router ]; then
  ip link set eth1 up
  ip addr add "$(cat /run/input/router)" dev eth1
fi

# The agent writes what it found out about the kernel beside its BPF sources.
cp -r /agent/lib /run/lib
export K8S_NODE_NAME=$node CILIUM_K8S_NAMESPACE=kube-system
socket=/run/cilium/cilium.sock
/agent/cilium-agent --k8s-kubeconfig-path=/run/input/kubeconfig --lib-dir=/run/lib --state-dir=/run/cilium --bpf-root=/sys/fs/bpf \
  --cgroup-root=/sys/fs/cgroup --socket-path=$socket "${flags[@]}" > /tmp/agent.log 2>&1 &
agent=$!
tail -n +1 -f /tmp/agent.log > "$(port_of log)" &
log_tail=$!
report started "$(uptime_s)"

api() { curl -s -m 20 --unix-socket $socket "$@"; }
# Healthy over the API, and the log says that start-up is over: the first alone comes too early.
ready() { [ -S $socket ] && grep -q 'Daemon initialization completed' /tmp/agent.log && api -f -o /dev/null http://localhost/v1/healthz; }
outcome() {
  local began=$SECONDS
  until ready; do
    kill -0 $agent 2> /dev/null || { wait $agent; echo "exited $?"; return; }
    [ $((SECONDS - began)) -lt "$limit" ] || { echo waiting; return; }
    sleep 1
  done
  echo ready
}
# In this shell, not in a substitution: `wait` knows only its own children.
outcome > /tmp/outcome
result=$(cat /tmp/outcome)
report outcome "$result"

if [ "$result" = ready ]; then
  for family in ipv4 ipv6; do
    cidr=$(api http://localhost/v1/config | jq -r ".status.addressing.$family | select(.enabled != false) | .\"alloc-range\" // empty")
    [ -n "$cidr" ] || continue
    report pod-cidr "$cidr"
    # As a pod's CNI call would: three addresses, because one could be a coincidence.
    for pod in a b c; do
      report pod-ip "$(api -X POST "http://localhost/v1/ipam?family=$family&owner=test/$pod" | jq -r ".address.$family")"
    done
  done
fi

# The router must have heard it all before this end of the session is gone.
if [ "$result" = ready ] && [ -e /run/input/router ]; then
  for _ in $(seq 120); do
    state=$(api http://localhost/v1/bgp/peers | jq -r '.[0]."session-state" // empty')
    [ "$state" != established ] || break
    sleep 1
  done
  report bgp "$state"
  sleep 8
fi

ip -br addr
grep -E 'level=(warn|warning|error|fatal)' /tmp/agent.log | tail -15 | cut -c1-400
# Gives the log's last lines the time to reach the host.
sleep 1
kill $log_tail
exec 3>&-
poweroff -f
