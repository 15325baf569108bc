"""How a sum of two owners' columns is distributed, in steps of 8: its median, any quantile, its minimum.

A row counts in one step only, so all counts together have the noise of one. What is read off afterwards costs nothing.
"""


async def program(c, tables):
    step = await c.floor_shift(tables["bank"]["amount"] + tables["shop"]["spent"], 3)
    for value in range(26):
        c.open(f"step_{value}", (await c.equal(step, value)).sum())
