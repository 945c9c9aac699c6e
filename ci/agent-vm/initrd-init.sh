#!/busybox sh
# shellcheck shell=dash
# initrd-init.sh: the guest's first process. Finds the two disks and hands over to the agent disk's init.
busybox=/busybox
$busybox mount -t devtmpfs dev /dev
$busybox mount -t proc proc /proc
while read -r module; do $busybox insmod "/modules/$module"; done < /order
# Until the last disk is there: they appear one after the other.
tries=0
while [ ! -b /dev/vdc ] && [ $tries -lt 100 ]; do
  $busybox sleep 0.1
  tries=$((tries + 1))
done
$busybox mount -t ext4 -o ro /dev/vda /root && $busybox mount -t ext4 -o ro /dev/vdb /root/agent &&
  $busybox mount --move /dev /root/dev && $busybox umount /proc && exec $busybox switch_root /root /agent/init
echo "agent-vm: the initrd found no disks"
$busybox poweroff -f
