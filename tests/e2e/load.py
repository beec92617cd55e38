"""Many clients at once, for tests and benches of a server under more work than it can do."""

import asyncio
import json
import time
import urllib.parse


class Answer:
    """What one client saw: its status, the ids of its tokens and when each came, the end."""

    def __init__(self, begun):
        self.begun = begun
        self.status = 0
        self.headers = {}
        self.ids = []
        self.times = []
        self.done = None
        self.error = None


async def ask(api, body, key=None):
    """One streamed completion over a connection of its own."""
    url = urllib.parse.urlsplit(api)
    data = json.dumps({"stream": True, "return_token_ids": True, **body}).encode()
    head = (f"POST /v1/completions HTTP/1.1\r\nHost: {url.netloc}\r\nConnection: close\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n")
    if key:
        head += f"Authorization: Bearer {key}\r\n"
    answer = Answer(time.monotonic())
    try:
        reader, writer = await asyncio.open_connection(url.hostname, url.port)
        writer.write(head.encode() + b"\r\n" + data)
        answer.status = int((await reader.readline()).split()[1])
        while (line := (await reader.readline()).decode().strip()):
            name, _, value = line.partition(":")
            answer.headers[name.lower()] = value.strip()
        async for line in reader:
            if line.startswith(b"data: {"):
                take(answer, json.loads(line[6:]))
            elif line.startswith(b"data: [DONE]"):
                answer.done = time.monotonic()
        writer.close()
    except (OSError, IndexError, ValueError) as error:
        answer.error = repr(error)
    answer.over = time.monotonic()
    return answer


def take(answer, event):
    if "error" in event:
        answer.error = event["error"]
    for choice in event.get("choices", ()):
        ids = choice.get("token_ids") or ()
        answer.ids += ids
        answer.times += [time.monotonic()] * len(ids)


async def closed(api, clients, seconds, body_of):
    """So many clients, each of which asks again as soon as it has its answer."""
    until = time.monotonic() + seconds
    answers = []

    async def one(number):
        count = 0
        while time.monotonic() < until:
            answers.append(await ask(api, body_of(number * 10_000 + count)))
            count += 1
    await asyncio.gather(*(one(i) for i in range(clients)))
    return answers


async def opened(api, rate, seconds, body_of, key_of=lambda number: None):
    """So many new clients a second, whatever becomes of those before."""
    begun = time.monotonic()
    tasks = []
    while (now := time.monotonic() - begun) < seconds:
        while len(tasks) < now * rate:
            number = len(tasks)
            tasks.append(asyncio.create_task(ask(api, body_of(number), key_of(number))))
        await asyncio.sleep(0.005)
    return await asyncio.gather(*tasks)
