"""Section 10a of CANONICAL.md: the state of a text in an encoded grammar."""

STACKS, VISITS, DEPTH = 32, 256, 128
INFINITE = float("inf")


class Grammar:
    def __init__(self, data):
        self.data, self.at = data, 0
        assert self._byte() == 1
        count = self._number()
        self.states = []
        for i in range(count):
            head = self._number()
            edges = [(self._byte(), self._byte(), self._state(i)) for _ in range(head >> 1)]
            calls = []
            for _ in range(self._number()):
                start, least, most = self._state(i), self._number(), self._number()
                calls.append((start, least, most - 1 if most else INFINITE, self._state(i)))
            self.states.append((head & 1, edges, calls))
        assert self.at == len(data)
        self._find_heights()

    def _byte(self):
        self.at += 1
        return self.data[self.at - 1]

    def _number(self):
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def _state(self, here):
        coded = self._number()
        return here - (coded + 1) // 2 if coded % 2 else here + coded // 2

    def _find_heights(self):
        self.height = [0 if final else INFINITE for final, _, _ in self.states]
        changed = True
        while changed:
            changed = False
            for i, (_, edges, calls) in enumerate(self.states):
                ways = [self.height[to] for _, _, to in edges]
                for start, least, _, to in calls:
                    ways.append(max(self.height[to], self.height[start] + 1) if least else self.height[to])
                best = min(ways + [self.height[i]])
                if best < self.height[i]:
                    self.height[i], changed = best, True


class Step:
    """What is kept of one step: stacks ((call, count), ..., state), and whether the text may end."""

    def __init__(self, grammar):
        self.grammar, self.kept, self.seen, self.may_end = grammar, [], set(), False

    def fits(self, frames, state):
        return len(frames) + self.grammar.height[state] <= DEPTH

    def enter(self, frames, state):
        if self.fits(frames, state):
            self.follow(frames, state)

    def follow(self, frames, state):
        if len(self.seen) >= VISITS or (frames, state) in self.seen:
            return
        self.seen.add((frames, state))
        final, edges, calls = self.grammar.states[state]
        if edges and len(self.kept) < STACKS:
            self.kept.append((frames, state))
        for number, call in enumerate(calls):
            self.repeat(frames, (state, number), 1)
            if call[1] == 0:
                self.enter(frames, call[3])
        if not final:
            return
        if not frames:
            self.may_end = True
            return
        (name, count), below = frames[-1], frames[:-1]
        self.repeat(below, name, count + 1)
        call = self.grammar.states[name[0]][2][name[1]]
        if count >= call[1]:
            self.enter(below, call[3])

    def repeat(self, frames, name, count):
        start, least, most, to = self.grammar.states[name[0]][2][name[1]]
        if most < count:
            return
        if most == INFINITE:
            count = min(count, max(least, 1))
        final, edges, calls = self.grammar.states[to]
        if count == most and final and not edges and not calls:
            self.enter(frames, start)
        elif self.fits(frames, to):
            self.enter(frames + ((name, count),), start)


def control(token):
    """The bytes of a control token; no text has the first of them."""
    return b"\xff" + token.to_bytes(4, "big")


def begin(grammar):
    step = Step(grammar)
    step.enter((), 0)
    return step


def read(grammar, before, byte):
    step = Step(grammar)
    for frames, state in before.kept:
        for low, high, to in grammar.states[state][1]:
            if low <= byte <= high:
                step.enter(frames, to)
    return step


def allows(grammar, text):
    step = begin(grammar)
    for byte in text:
        step = read(grammar, step, byte)
    return step.may_end
