#!/bin/busybox sh
# shellcheck shell=dash
# small-init.sh: the first process of a guest of `testbed::Guest`, which runs what comes over the second serial port, a line of shell at a time. It
# answers with a line of three numbers, the exit code and the sizes of both outputs, and with the outputs. All of it is told on the console, too.
/bin/busybox mkdir -p /proc /sys /dev /run/netns /tmp /var/lib
/bin/busybox --install -s /bin
export PATH=/bin HOME=/
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmpfs /run
mkdir /run/netns
while read -r module; do insmod "/modules/$module" || echo "no module $module"; done < /modules/order

# Its own name, so that `eth0` is free for whoever needs one.
ip link set lo up
ip link set eth0 name outside
ip link set outside up
ip address add 10.0.2.15/24 dev outside

stty -F /dev/ttyS1 raw -echo
exec 3<> /dev/ttyS1
echo "up after $(cut -d' ' -f1 /proc/uptime) s"
echo ready >&3
while read -r order <&3; do
  echo "+ $order"
  sh -c "$order" > /tmp/out 2> /tmp/err < /dev/null 3>&-
  code=$?
  cat /tmp/out /tmp/err
  echo "= $code"
  echo "$code $(stat -c %s /tmp/out) $(stat -c %s /tmp/err)" >&3
  cat /tmp/out /tmp/err >&3
done
poweroff -f
