//! The node table: from the kernel's node ids to vnodes, with the lookup count that the kernel holds.
//!
//! **Invariants.** A node id is never reused in the life of a mount. At any time one object has at most one node, found by its
//! handle, so hard links and repeated lookups share it. A node stays while the kernel holds a lookup on it; the root stays
//! forever. A node is small, for there may be millions: data that only open files need is kept elsewhere, by node id.

use super::protocol::wire::ROOT_ID;
use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::SystemTime;
use vnode::{Handle, Sharded, VnodeRef};

/// One object that the kernel knows.
pub(crate) struct Node {
    /// The kernel's id of the node.
    pub(crate) id: u64,
    /// The object.
    pub(crate) vnode: VnodeRef,
    /// Changed under the lock of the shard that the handle belongs to.
    lookups: AtomicU64,
    /// A word of state that is not derived from the kernel's requests: of a directory, who may search it
    /// (`caching::access`); of a regular file, when it was created (`caching::new_files`), and [`MAY_BE_MAPPED`]; of a
    /// symlink, whether others may follow it (`dispatch::guard`).
    pub(crate) state_bits: AtomicU64,
}

/// In the state bits of a regular file, in addition to those of `caching::new_files`.
pub(crate) const MAY_BE_MAPPED: u64 = 1 << 63;

impl Node {
    /// Records that the file, a regular one, may be written through a mapping from now on, bypassing the server. The kernel
    /// releases the mapped file with its last descriptor, and does not report the end of the mapping.
    pub(crate) fn record_mapping(&self) {
        self.state_bits.fetch_or(MAY_BE_MAPPED, Ordering::Relaxed);
    }

    /// Returns whether a file, a regular one, may be written through a mapping, bypassing the server.
    pub(crate) fn may_be_mapped(&self) -> bool {
        self.state_bits.load(Ordering::Relaxed) & MAY_BE_MAPPED != 0
    }
}

/// A node in the table by handle. With the hash stored, a table that grows or shrinks reads no node.
struct Slot {
    hash: u64,
    node: Arc<Node>,
}

impl Slot {
    fn matches(&self, hash: u64, handle: &Handle) -> bool {
        self.hash == hash && self.node.vnode.handle() == *handle
    }
}

/// Number of shards per table, each with its own lock.
const SHARDS: usize = 64;
/// Number of consecutive node ids stored together: ids are assigned in sequence and mostly forgotten together.
const IDS_PER_BLOCK: u64 = 32;

/// The existing nodes among [`IDS_PER_BLOCK`] consecutive ids.
#[derive(Default)]
struct IdBlock {
    nodes: [Option<Arc<Node>>; IDS_PER_BLOCK as usize],
    count: u8,
}

/// Runs by their number: the first id divided by [`IDS_PER_BLOCK`].
type IdBlocks = HashMap<u64, Box<IdBlock>>;

/// All nodes of a mount.
pub(crate) struct NodeTable {
    root: Arc<Node>,
    next_id: AtomicU64,
    by_id: Sharded<RwLock<IdBlocks>, SHARDS>,
    by_handle: Sharded<Mutex<HashTable<Slot>>, SHARDS>,
    hasher: DefaultHashBuilder,
    count: AtomicU64,
    generation: u64,
}

impl NodeTable {
    pub(crate) fn new(root: VnodeRef) -> NodeTable {
        let root =
            Arc::new(Node { id: ROOT_ID, vnode: root, lookups: AtomicU64::new(1), state_bits: AtomicU64::new(0) });
        let table = NodeTable {
            root: Arc::clone(&root),
            next_id: AtomicU64::new(ROOT_ID + 1),
            by_id: Sharded::default(),
            by_handle: Sharded::default(),
            hasher: DefaultHashBuilder::default(),
            count: AtomicU64::new(0),
            generation: new_generation(),
        };
        let hash = table.hash(&root.vnode.handle());
        let mut shard = table.handle_shard(hash);
        table.insert(&mut shard, hash, root);
        drop(shard);
        table
    }

    /// Returns the generation that the kernel gets with each id: it makes handles of an earlier mount at the same path, whose
    /// ids were those of other objects, stale.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the node with this id, if the kernel holds it.
    pub(crate) fn get(&self, id: u64) -> Option<Arc<Node>> {
        if id == ROOT_ID {
            return Some(Arc::clone(&self.root));
        }
        let blocks = self.id_shard(id).read().unwrap_or_else(PoisonError::into_inner);
        blocks.get(&(id / IDS_PER_BLOCK))?.nodes[(id % IDS_PER_BLOCK) as usize].clone()
    }

    /// Returns the id of this object's node, if it has one.
    pub(crate) fn id_of(&self, handle: &Handle) -> Option<u64> {
        let hash = self.hash(handle);
        let shard = self.handle_shard(hash);
        shard.find(hash, |slot| slot.matches(hash, handle)).map(|slot| slot.node.id)
    }

    /// Returns the node of an object, new or known, with one more lookup held by the kernel.
    pub(crate) fn look_up(&self, vnode: VnodeRef) -> Arc<Node> {
        let handle = vnode.handle();
        let hash = self.hash(&handle);
        let mut shard = self.handle_shard(hash);
        if let Some(Slot { node, .. }) = shard.find(hash, |slot| slot.matches(hash, &handle)) {
            node.lookups.fetch_add(1, Ordering::Relaxed);
            return Arc::clone(node);
        }
        let node = Arc::new(Node {
            id: self.next_id.fetch_add(1, Ordering::Relaxed),
            vnode,
            lookups: AtomicU64::new(1),
            state_bits: AtomicU64::new(0),
        });
        self.insert(&mut shard, hash, Arc::clone(&node));
        node
    }

    /// Drops lookups that the kernel has forgotten, and the node with the last one. Returns whether the node was dropped.
    pub(crate) fn forget(&self, id: u64, lookups: u64) -> bool {
        if id == ROOT_ID {
            return false;
        }
        let Some(node) = self.get(id) else { return false };
        let hash = self.hash(&node.vnode.handle());
        let mut shard = self.handle_shard(hash);
        let left = node.lookups.load(Ordering::Relaxed).saturating_sub(lookups);
        node.lookups.store(left, Ordering::Relaxed);
        if left > 0 {
            return false;
        }
        if let Ok(entry) = shard.find_entry(hash, |slot| slot.hash == hash && slot.node.id == id) {
            entry.remove();
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
        if shard.len() < shard.capacity() / 4 {
            let half = shard.len() * 2;
            shard.shrink_to(half, |slot| slot.hash);
        }
        drop(shard);
        let removed = self.remove_id(id);
        // Dropping the object itself may take time: not under a lock.
        drop(removed);
        true
    }

    /// Returns the number of nodes, including the root.
    pub(crate) fn len(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Drops every node but the root: the kernel has ended the connection.
    pub(crate) fn clear(&self) {
        for id in self.ids() {
            self.forget(id, u64::MAX);
        }
    }

    /// Returns the ids of all current nodes.
    pub(crate) fn ids(&self) -> Vec<u64> {
        let mut ids = Vec::new();
        for shard in self.by_id.iter() {
            let blocks = shard.read().unwrap_or_else(PoisonError::into_inner);
            ids.extend(blocks.values().flat_map(|block| block.nodes.iter().flatten()).map(|node| node.id));
        }
        ids
    }

    /// Returns the id of a node that satisfies a condition.
    pub(crate) fn find(&self, condition: impl Fn(&Node) -> bool) -> Option<u64> {
        self.by_id.iter().find_map(|shard| {
            let blocks = shard.read().unwrap_or_else(PoisonError::into_inner);
            let found = blocks.values().flat_map(|block| block.nodes.iter().flatten()).find(|node| condition(node));
            found.map(|node| node.id)
        })
    }

    fn insert(&self, shard: &mut HashTable<Slot>, hash: u64, node: Arc<Node>) {
        let mut blocks = self.id_shard(node.id).write().unwrap_or_else(PoisonError::into_inner);
        let block = blocks.entry(node.id / IDS_PER_BLOCK).or_default();
        block.nodes[(node.id % IDS_PER_BLOCK) as usize] = Some(Arc::clone(&node));
        block.count += 1;
        drop(blocks);
        shard.insert_unique(hash, Slot { hash, node }, |slot| slot.hash);
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    fn remove_id(&self, id: u64) -> Option<Arc<Node>> {
        let mut blocks = self.id_shard(id).write().unwrap_or_else(PoisonError::into_inner);
        let block = blocks.get_mut(&(id / IDS_PER_BLOCK))?;
        let removed = block.nodes[(id % IDS_PER_BLOCK) as usize].take()?;
        block.count -= 1;
        if block.count == 0 {
            blocks.remove(&(id / IDS_PER_BLOCK));
            if blocks.len() < blocks.capacity() / 4 {
                let half = blocks.len() * 2;
                blocks.shrink_to(half);
            }
        }
        Some(removed)
    }

    fn id_shard(&self, id: u64) -> &RwLock<IdBlocks> {
        self.by_id.of_number(id / IDS_PER_BLOCK)
    }

    fn hash(&self, handle: &Handle) -> u64 {
        self.hasher.hash_one(handle.as_bytes())
    }

    fn handle_shard(&self, hash: u64) -> MutexGuard<'_, HashTable<Slot>> {
        self.by_handle.of_hash(hash).lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns a number that no other mount has, with high probability. The kernel keeps 32 bits of it.
fn new_generation() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::from((now.as_nanos() as u32).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuse::test_vnode::vnode;

    #[test]
    fn one_object_has_one_node_until_it_is_forgotten() {
        let table = NodeTable::new(vnode(0));
        let first = table.look_up(vnode(7));
        let again = table.look_up(vnode(7));
        assert_eq!(first.id, again.id);
        assert_eq!(table.id_of(&vnode(7).handle()), Some(first.id));
        assert!(!table.forget(first.id, 1));
        assert!(table.get(first.id).is_some());
        assert!(table.forget(first.id, 1));
        assert!(table.get(first.id).is_none());
        assert_eq!(table.id_of(&vnode(7).handle()), None);
        assert_ne!(table.look_up(vnode(7)).id, first.id, "an id came twice");
    }

    #[test]
    fn root_is_never_forgotten() {
        let table = NodeTable::new(vnode(0));
        assert_eq!(table.look_up(vnode(0)).id, ROOT_ID);
        assert!(!table.forget(ROOT_ID, u64::MAX));
        assert!(table.get(ROOT_ID).is_some());
        assert!(!table.forget(999, 1), "a node that never was");
    }

    #[test]
    fn tables_shrink_when_the_kernel_forgets() {
        let table = NodeTable::new(vnode(0));
        let ids: Vec<u64> = (1..=50_000).map(|number| table.look_up(vnode(number)).id).collect();
        assert_eq!(table.len(), 50_001);
        for id in ids {
            assert!(table.forget(id, 1));
        }
        assert_eq!(table.len(), 1);
        let left: usize = table.by_id.iter().map(|shard| shard.read().unwrap().capacity()).sum();
        assert!(left < 5_000, "{left} places kept for one node");
        let left: usize = table.by_handle.iter().map(|shard| shard.lock().unwrap().capacity()).sum();
        assert!(left < 5_000, "{left} places kept for one node");
    }

    #[test]
    fn concurrent_lookups_and_forgets_are_counted() {
        let table = Arc::new(NodeTable::new(vnode(0)));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..20_000 {
                        let node = table.look_up(vnode(round % 5 + 1));
                        assert!(table.get(node.id).is_some());
                        table.forget(node.id, 1);
                    }
                });
            }
        });
        assert_eq!(table.len(), 1);
    }
}
