#!/bin/bash
# node.sh VERB ..: what a node of two does, in the guest; node-init.sh lies beside.
#   start KEY=VALUE..         starts the agent with these settings    stop    ends it, as the kubelet does
#   runs                      whether it does                         api PATH [curl's options]
#   settle SECONDS            until the programs of all endpoints are loaded
#   add POD NAMESPACE UID     a Pod's network, by Cilium's own CNI plugin; prints what the plugin prints
#   del POD NAMESPACE UID     takes it away                           in POD COMMAND..    runs a command in the Pod
#   ping POD NAME ADDRESS     starts a ping, ten a second, which goes on; `ping - ..` from the node itself
#   pong NAME                 ends it, and prints its log
export PATH=/usr/sbin:/usr/bin HOME=/root
socket=/run/cilium/cilium.sock
api() { curl -s -m 20 --unix-socket $socket "http://localhost/v1/$1" "${@:2}"; }
cni() {
  local command=$1 pod=$2 namespace=$3 uid=$4
  CNI_COMMAND=$command CNI_CONTAINERID=$uid CNI_NETNS=/run/netns/$pod CNI_IFNAME=eth0 CNI_PATH=/agent \
    CNI_ARGS="IgnoreUnknown=1;K8S_POD_NAMESPACE=$namespace;K8S_POD_NAME=$pod;K8S_POD_INFRA_CONTAINER_ID=$uid;K8S_POD_UID=$uid" \
    /agent/cilium-cni <<< '{"cniVersion": "0.3.1", "name": "cilium", "type": "cilium-cni", "log-file": "/tmp/cni.log"}'
}

verb=$1
shift
case $verb in
  start)
    if [ ! -e /run/lib ]; then
      cp -r /agent/lib /run/lib
      # Most of it, and clang.sh would send them each time.
      rm -rf /run/lib/bpf/tests
    fi
    rm -rf /run/config
    mkdir /run/config
    # As the agent's Pod has them: one file for each key of cilium-config.
    for setting in "$@"; do printf %s "${setting#*=}" > "/run/config/${setting%%=*}"; done
    K8S_NODE_NAME=$(cat /run/input/node)
    export K8S_NODE_NAME CILIUM_K8S_NAMESPACE=kube-system
    echo 'node: the agent starts' >> /tmp/agent.log
    PATH=/agent/before:$PATH /agent/cilium-agent --k8s-kubeconfig-path=/run/input/kubeconfig --lib-dir=/run/lib --state-dir=/run/cilium --bpf-root=/sys/fs/bpf \
      --cgroup-root=/sys/fs/cgroup --socket-path=$socket --config-dir=/run/config >> /tmp/agent.log 2>&1 &
    echo $! > /tmp/agent.pid
    ;;
  stop)
    pid=$(cat /tmp/agent.pid)
    kill "$pid"
    for _ in $(seq 300); do
      kill -0 "$pid" 2> /dev/null || exit 0
      sleep 0.1
    done
    kill -9 "$pid"
    ;;
  runs) kill -0 "$(cat /tmp/agent.pid)" ;;
  api) api "$@" ;;
  settle)
    for _ in $(seq "$1"); do
      [ "$(api endpoint | jq 'all(.[]; .status.state == "ready")')" != true ] || exit 0
      sleep 1
    done
    exit 1
    ;;
  add)
    [ -e "/run/netns/$1" ] || ip netns add "$1"
    ip -n "$1" link set lo up
    cni ADD "$@"
    ;;
  del)
    cni DEL "$@" || exit
    ip netns del "$1"
    ;;
  in) ip netns exec "$@" ;;
  ping)
    from=(ip netns exec "$1")
    [ "$1" != - ] || from=()
    "${from[@]}" /usr/bin/ping -n -D -O -i 0.1 "$3" > "/tmp/ping.$2" 2>&1 &
    echo $! > "/tmp/ping.$2.pid"
    ;;
  pong)
    kill -INT "$(cat "/tmp/ping.$1.pid")"
    sleep 0.2
    cat "/tmp/ping.$1"
    ;;
esac
