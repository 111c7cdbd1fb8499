"""What is said of load tests, with ``{names}`` for values: one place, so that a page can say it in another language."""

from __future__ import annotations

RAMP = "The rate rose during the run: its numbers are those of no single load."
CLIENT_QUEUE = (
    "With a rate and a limit, requests wait at the client first; the tool leaves that out of the time to first token."
)
FAILED_BY_DIFFERENCE = (
    "This release does not count failures; requests that were asked for and did not complete are taken for them."
)
CUT_OFF = "{count} requests were cut off at the end of the run and are left out."
SAMPLED = "The file keeps {kept} of {all} requests one by one, so its percentiles are used; keep all of them for exact numbers."
WARM_UP = "{count} requests of the warm-up are left out."
NOT_COMPLETE = "The tool says that this run is not complete."
NO_LEVEL = "How many requests were in flight is not told: give the summary file of the run as well."
CHUNKS = "The file does not count tokens: the pace of an answer is bounded by its chunks."
FEW = "Only {count} requests: sampling noise is large."
SHORT = "{count} requests at {level:g} in flight: fewer than {rounds} rounds, so filling up and emptying weigh on the numbers."
FAILING = "{failed} of {count} requests failed; they count against goodput."
NOISE_UNKNOWN = "How much whole answers differ is not in the file: the noise of the throughput is left out."

DUPLICATE = "{place} holds the same run as {other} and is left out."
JOINED = "{place} is the summary of {other}: one run."

NO_POINTS = "No run says how many requests were in flight."
FEW_LEVELS = "{count} levels of load show no peak: test at least three."
NONE_GOOD = "At no level did a request certainly keep both promises."
STILL_RISING = "The highest level tested, {level:g} in flight, may be the peak or below it: test more."
PEAK = (
    "Of the levels tested, goodput peaks at {level:g} in flight; the peak itself lies between {below:g} and {above:g}."
)
PEAK_RANGE = (
    "Goodput peaks between {low:g} and {high:g} in flight: what was measured cannot tell these levels apart. The peak itself lies "
    "between {below:g} and {above:g}."
)
FALLS_TTFT = (
    "Above the peak, it is the time to first token that breaks ({ttft:.0%} of requests miss it, {tpot:.0%} the pace)."
)
FALLS_TPOT = (
    "Above the peak, it is the pace that breaks ({tpot:.0%} of requests miss it, {ttft:.0%} the time to first token)."
)
SEATS = "Set max_num_seqs to {low}: more seats bring no more requests that keep both promises."
SEATS_RANGE = "Set max_num_seqs between {low} and {high}; begin with {low}, which leaves more KV room for each request."
SEATS_BELOW = "No lower level was tested, so {low} is an upper bound: the peak may lie below it."
SEATS_CAPPED = "The server ran with max_num_seqs {seats}: it never held {level:g} at once. Test with more seats first."
SEATS_ASSUMED = (
    "This holds where the tested server had at least {high} seats, so that all requests in flight were running."
)
SEATS_ENGINES = "{level:g} in flight over {engines} engines are {low} seats each."
STEP_TOKENS = (
    "At the peak a step carried {tokens} tokens on average (prompt and output tokens per second x seconds per output token), fewer "
    "where prompts hit the prefix cache: keep max_num_batched_tokens above that, or prompts wait."
)
STEP_SMALLER = (
    "Since the pace breaks first, try a smaller max_num_batched_tokens next, never below that: steps get shorter."
)
STEP_LARGER = (
    "Since the first token breaks first, try a larger max_num_batched_tokens next: prompts get through in fewer steps."
)
BEST_SERVER = "Of the settings tested, {best} gives the most."
SERVERS_ALIKE = "The settings tested cannot be told apart: {alike}."

LENGTHS = "Lengths of {count} requests that finished within {seconds:.0f} s; those still running are not among them."
FEW_LENGTHS = "Only {count} requests: the longest ones are hardly known. Watch longer."
BEYOND_PROMPTS = (
    "{share:.1%} of prompts are longer than {edge:,.0f} tokens, the last edge of the histogram: how much longer is estimated from "
    "the mean of all."
)
BEYOND_OUTPUTS = (
    "{share:.1%} of outputs are longer than {edge:,.0f} tokens, the last edge of the histogram: how much longer is estimated from "
    "the mean of all."
)
RATE_FINISHED = "The rate is that of finished requests: how many arrived is not told."
PREFIX = "{share:.0%} of prompt tokens came from the prefix cache; the load shares as much, as one common beginning (an estimate)."
PREFIX_UNKNOWN = "How much of the prompts is shared is not told: the load shares nothing."
PAIRS = "Which prompt had which output is not told: lengths are paired by chance."
