#!/bin/bash
# node-init.sh: pid 1 of a guest that stays up, once guest-init.sh has set the machine up. Runs what comes over the port `orders`, a line of shell
# at a time, and answers with a line of three numbers, the exit code and the sizes of both outputs, and with the outputs.
ip addr add "$(cat /run/input/address)" dev eth1
ip link set eth1 up
# Pods' packets are this machine's to forward.
sysctl -q -w net.ipv4.ip_forward=1
touch /tmp/agent.log
tail -n +1 -f /tmp/agent.log > "$(port_of log)" &
exec 3<> "$(port_of orders)"
echo ready >&3
while read -r order <&3; do
  echo "+ $order"
  bash -c "$order" > /tmp/out 2> /tmp/err < /dev/null 3>&-
  code=$?
  head -c 2000 /tmp/out
  head -c 2000 /tmp/err
  echo "= $code"
  echo "$code $(stat -c %s /tmp/out) $(stat -c %s /tmp/err)" >&3
  cat /tmp/out /tmp/err >&3
done
poweroff -f
