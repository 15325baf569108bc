"""How many rows with a flag of one owner fall into each category of another: sorted afterwards, the top k."""


async def program(c, tables):
    flag, category = tables["bank"]["flag"], tables["shop"]["category"]
    for value in range(12):
        c.open(f"category_{value}", (flag * await c.equal(category, value)).sum())
