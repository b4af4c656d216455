"""Prints the CPU time of one Instructor call in microseconds, against a server without delay.

    python instructor_overhead.py BASE_URL CALLS
"""

import enum
import sys
import time

import instructor
import openai
import pydantic


class Severity(str, enum.Enum):
    low = "low"
    medium = "medium"
    high = "high"


class Issue(pydantic.BaseModel):
    file: str
    severity: Severity
    message: str


class Review(pydantic.BaseModel):
    summary: str
    issues: list[Issue]


def main() -> None:
    base_url, calls = sys.argv[1], int(sys.argv[2])
    client = instructor.from_openai(openai.OpenAI(base_url=base_url, api_key="none", max_retries=0))
    messages = [{"role": "user", "content": "Review the change and list every issue with file, severity and message."}]

    def call() -> None:
        client.chat.completions.create(model="m", messages=messages, response_model=Review, max_retries=1)

    best = float("inf")
    for _ in range(3):
        for _ in range(max(1, calls // 10)):
            call()
        start = time.process_time()
        for _ in range(calls):
            call()
        best = min(best, (time.process_time() - start) / calls)
    print(best * 1_000_000)


if __name__ == "__main__":
    main()
