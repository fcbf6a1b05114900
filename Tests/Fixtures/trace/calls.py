"""The functions that a process calls: a breakpoint in each, for Linux on x86-64."""
import bisect
import ctypes
import os
import signal
import struct
import time

CONT, SINGLESTEP, GETREGS, SETREGS, SEIZE, INTERRUPT = 7, 9, 12, 13, 0x4206, 0x4207
TRACECLONE = 1 << 3
ALL_THREADS = 0x40000000
INT3 = b"\xcc"


class Registers(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in (
        "r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss fs_base gs_base "
        "ds es fs gs").split()]


def ptrace(request, thread, data=0):
    call = ctypes.CDLL(None, use_errno=True).ptrace
    call.argtypes, call.restype = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p], ctypes.c_long
    if call(request, thread, 0, data) == -1:
        raise OSError(ctypes.get_errno(), f"ptrace {request}")


class Calls:
    """Stops a process at its functions. It does not survive that.

    `places` are address, name and file of each function; those without a file are not looked at. `part_of` says in
    which part of the program a file is, if in any. What a part calls is not counted."""

    def __init__(self, process, program, places, part_of):
        self.process = process
        with open(f"/proc/{process}/maps") as maps:
            base = next(int(line.split("-")[0], 16) for line in maps if line.rstrip().endswith(program))
        self.places = {base + address: (name, file) for address, name, file in places}
        self.addresses = sorted(self.places)
        self.are_parts = [bool(file and part_of(file)) for _, file in map(self.places.get, self.addresses)]
        self.memory = os.open(f"/proc/{process}/mem", os.O_RDWR)
        self.code = {address: os.pread(self.memory, 1, address) for address, (_, file) in self.places.items() if file}
        self.called = set()
        # The threads that go one instruction on, and where the breakpoint was that they stood on.
        self.stepping = {}

    def during(self, begin):
        """Begins something, a future, and returns the names and files of what the process calls until it is done.

        What it calls by itself in the quarter of a minute before is not counted."""
        threads = [int(thread) for thread in os.listdir(f"/proc/{self.process}/task")]
        for thread in threads:
            ptrace(SEIZE, thread, TRACECLONE)
            ptrace(INTERRUPT, thread)
            os.waitpid(thread, ALL_THREADS)
        for address in self.code:
            os.pwrite(self.memory, INT3, address)
        for thread in threads:
            ptrace(CONT, thread)
        idle_end = time.monotonic() + 15
        self.run(lambda: time.monotonic() > idle_end)
        self.called.clear()
        work = begin()
        self.run(work.done)
        os.kill(self.process, signal.SIGKILL)
        while os.waitpid(-1, ALL_THREADS)[0] != self.process:
            pass
        os.close(self.memory)
        work.result()
        return self.called

    def run(self, is_over):
        while not is_over():
            thread, status = os.waitpid(-1, ALL_THREADS | os.WNOHANG)
            if thread == 0:
                time.sleep(0.0002)
            elif os.WIFSTOPPED(status):
                self.stopped(thread, status)
            elif thread == self.process:
                raise SystemExit("the server has ended")

    def stopped(self, thread, status):
        signal_number = os.WSTOPSIG(status)
        if status >> 16:  # a new thread
            ptrace(CONT, thread)
        elif signal_number != signal.SIGTRAP:
            ptrace(CONT, thread, signal_number)
        elif thread in self.stepping:
            os.pwrite(self.memory, INT3, self.stepping.pop(thread))
            ptrace(CONT, thread)
        else:
            self.reached(thread)

    def reached(self, thread):
        """A thread is at a breakpoint, which goes unless a part has called the function: something else may, later."""
        registers = Registers()
        ptrace(GETREGS, thread, ctypes.addressof(registers))
        registers.rip -= 1
        address = registers.rip
        os.pwrite(self.memory, self.code[address], address)
        ptrace(SETREGS, thread, ctypes.addressof(registers))
        if self.is_called_by_a_part(registers):
            self.stepping[thread] = address
            ptrace(SINGLESTEP, thread)
        else:
            self.called.add(self.places[address])
            ptrace(CONT, thread)

    def is_called_by_a_part(self, registers):
        """Follows the frames from a function's first instruction."""
        (place,) = struct.unpack("<Q", os.pread(self.memory, 8, registers.rsp))
        frame = registers.rbp
        for _ in range(200):
            index = bisect.bisect(self.addresses, place) - 1
            if index >= 0 and self.are_parts[index]:
                return True
            try:
                # Swift marks the frames of asynchronous functions in the upper bits.
                frame, place = struct.unpack("<QQ", os.pread(self.memory, 16, frame & ((1 << 48) - 1)))
            except (OSError, struct.error):
                return False
        return False
