"""Rows and amounts by a group that another owner knows: nobody learns which row is in which group."""


async def program(c, tables):
    amount, group = tables["bank"]["amount"], tables["clinic"]["group"]
    for value in range(4):
        inside = await c.equal(group, value)
        c.open(f"rows_{value}", inside.sum())
        c.open(f"amount_{value}", (inside * amount).sum())
