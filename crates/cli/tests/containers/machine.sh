# Makes the machine of a test, which ends with it: storage in memory, a user `builder` who may map other users, /dev/fuse for all.
# usage: machine.sh DIRECTORY USER SCRIPT PROGRAM
set -eu
directory=$1 user=$2 script=$3 program=$4
mount --make-rprivate /
mount -t tmpfs -o mode=755 storage "$directory"
cd "$directory"
mkdir device home work runtime
mknod -m 666 device/fuse c 10 229
mount --bind device/fuse /dev/fuse
cp -a /etc etc
mount --bind etc /etc
echo 'builder:x:4321:4321::/nonexistent:/bin/sh' >>/etc/passwd
echo 'builder:x:4321:' >>/etc/group
echo 'builder:500000:65536' >/etc/subuid
echo 'builder:500000:65536' >/etc/subgid

cat >storage.conf <<END
[storage]
driver = "overlay"
graphroot = "$directory/work/graph"
runroot = "$directory/work/run"
[storage.options.overlay]
END
[ "$program" = kernel ] || echo "mount_program = \"$program\"" >>storage.conf
mkdir -p work/tree/bin work/tree/etc/conf.d work/tree/etc/old work/tree/var/lib/old/deep
cd work/tree
cp -L "$(command -v busybox)" bin/busybox
for command in sh rm mv mkdir ln chmod chown touch mkfifo echo cat ls sync; do ln -s busybox bin/$command; done
echo one >etc/one; echo two >etc/two; ln etc/one etc/linked; echo old >etc/old/file
echo deep >var/lib/old/deep/file; seq 1 20000 >var/lib/large
touch -d 2020-01-01 etc/* var/lib/* var/lib/old/deep/file
cd ..

variables="CONTAINERS_STORAGE_CONF=$directory/storage.conf BUILDAH_ISOLATION=chroot PATH=$PATH HOME=$directory/home"
if [ "$user" = root ]; then
    exec env -i $variables sh "$script"
fi
chown -R builder:builder "$directory/work" "$directory/home" "$directory/runtime"
chmod 700 "$directory/runtime"
exec setpriv --reuid builder --regid builder --clear-groups env -i $variables USER=builder \
    XDG_RUNTIME_DIR="$directory/runtime" buildah unshare sh "$script"
