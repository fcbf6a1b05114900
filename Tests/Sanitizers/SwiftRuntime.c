// Tells the thread sanitizer what it cannot see of Swift's libraries, which are not compiled for it. Without this it
// reports races that are none: where threads wait for a `Mutex`, where a task waits for something outside of Swift's
// concurrency, and where values are changed in place.
// scripts/sanitize loads it before the other libraries of the tests (LD_PRELOAD).
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>

// Programs that the tests start load this as well, and have no sanitizer.
__attribute__((weak)) void __tsan_acquire(void *);
__attribute__((weak)) void __tsan_release(void *);

// A `Mutex` that no other thread wants is locked and unlocked by atomics in the code that uses it, which the sanitizer
// sees. If another thread wants it, the kernel passes it on, in these functions of the module Synchronization. They are
// functions of Swift and get the `Mutex` as their context.
#define SWIFT __attribute__((swiftcall))
#define CONTEXT __attribute__((swift_context))
#define LOCK "$s15Synchronization12_MutexHandleV9_lockSlowyys6UInt32VF"
#define TRY_TO_LOCK "$s15Synchronization12_MutexHandleV12_tryLockSlowSbyF"
#define UNLOCK "$s15Synchronization12_MutexHandleV11_unlockSlowyyF"

SWIFT void lock(uint32_t thread, CONTEXT void *mutex) __asm__(LOCK);
SWIFT bool tryToLock(CONTEXT void *mutex) __asm__(TRY_TO_LOCK);
SWIFT void unlock(CONTEXT void *mutex) __asm__(UNLOCK);

static __typeof__(lock) *lockOfSwift;
static __typeof__(tryToLock) *tryToLockOfSwift;
static __typeof__(unlock) *unlockOfSwift;

SWIFT void lock(uint32_t thread, CONTEXT void *mutex) {
    lockOfSwift(thread, mutex);
    if (__tsan_acquire) __tsan_acquire(mutex);
}

SWIFT bool tryToLock(CONTEXT void *mutex) {
    bool isLocked = tryToLockOfSwift(mutex);
    if (isLocked && __tsan_acquire) __tsan_acquire(mutex);
    return isLocked;
}

SWIFT void unlock(CONTEXT void *mutex) {
    if (__tsan_release) __tsan_release(mutex);
    unlockOfSwift(mutex);
}

// Swift's concurrency says by itself that what a task does comes after what has resumed it; but not if it was resumed
// before it began to wait, and so need not wait. These are the beginning of what the compiler makes for a continuation,
// and the function that waits for it. An optimized build calls it; others have it called by Swift's library, where
// nobody can step in between.
#define ASYNC __attribute__((swiftasynccall))

typedef struct Continuation {
    struct Continuation *parent;
    ASYNC void (*goOn)(__attribute__((swift_async_context)) struct Continuation *);
    // Swift uses the lowest bits.
    uint64_t flags;
} Continuation;

enum { flagBits = 16 };

__attribute__((weak)) SWIFT void *swift_task_getCurrent(void);

static ASYNC void (*waitOfSwift)(Continuation *);

// Goes on in a task that need not wait. One that has waited goes on where it is to.
static ASYNC void goOn(__attribute__((swift_async_context)) Continuation *continuation) {
    continuation->goOn = (__typeof__(continuation->goOn))(continuation->flags >> flagBits);
    continuation->flags &= (1 << flagBits) - 1;
    if (__tsan_acquire) __tsan_acquire(swift_task_getCurrent());
    __attribute__((musttail)) return continuation->goOn(continuation);
}

ASYNC void swift_continuation_await(Continuation *continuation) {
    // An address has at most 48 bits.
    continuation->flags |= (uint64_t)continuation->goOn << flagBits;
    continuation->goOn = goOn;
    __attribute__((musttail)) return waitOfSwift(continuation);
}

// Who is the only one left that has a value, as an array, changes it in place. So what others have read of it comes
// before: their end of having it is a release, and finding that nobody else has it is an acquire.
typedef struct {
    void *type;
    uint64_t counts;
} Object;

static void (*releaseOfSwift)(Object *);
static void (*releaseManyOfSwift)(Object *, uint32_t);
static bool (*isUniqueOfSwift)(Object *);

static void load(void);

// Nobody else is told of the end of an object: the count of others is above the lowest 33 bits. Pointers that are
// negative or null have no counts.
static void noteRelease(Object *object) {
    // Swift's libraries may use this before it is loaded.
    if (!releaseOfSwift) load();
    if (!__tsan_release || (intptr_t)object <= 0) return;
    if (__atomic_load_n(&object->counts, __ATOMIC_RELAXED) >> 33 != 0) __tsan_release(object);
}

void swift_release(Object *object) {
    noteRelease(object);
    releaseOfSwift(object);
}

void swift_release_n(Object *object, uint32_t count) {
    noteRelease(object);
    releaseManyOfSwift(object, count);
}

bool swift_isUniquelyReferenced_nonNull_native(Object *object) {
    if (!isUniqueOfSwift) load();
    bool isUnique = isUniqueOfSwift(object);
    if (isUnique && __tsan_acquire) __tsan_acquire(object);
    return isUnique;
}

bool swift_isUniquelyReferenced_native(Object *object) {
    return object && swift_isUniquelyReferenced_nonNull_native(object);
}

__attribute__((constructor)) static void load(void) {
    lockOfSwift = (__typeof__(lockOfSwift))dlsym(RTLD_NEXT, LOCK);
    tryToLockOfSwift = (__typeof__(tryToLockOfSwift))dlsym(RTLD_NEXT, TRY_TO_LOCK);
    unlockOfSwift = (__typeof__(unlockOfSwift))dlsym(RTLD_NEXT, UNLOCK);
    waitOfSwift = (__typeof__(waitOfSwift))dlsym(RTLD_NEXT, "swift_continuation_await");
    releaseOfSwift = (__typeof__(releaseOfSwift))dlsym(RTLD_NEXT, "swift_release");
    releaseManyOfSwift = (__typeof__(releaseManyOfSwift))dlsym(RTLD_NEXT, "swift_release_n");
    isUniqueOfSwift = (__typeof__(isUniqueOfSwift))dlsym(RTLD_NEXT, "swift_isUniquelyReferenced_nonNull_native");
}
