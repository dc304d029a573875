-- The twelve consistency conditions of TPC-C, clause 3.3.2, over tables that another database filled.
-- Each line says how many rows break a condition; all must be 0. Condition 11 is stated for the tables
-- as they are loaded; deliveries since are counted by the customers they went to.
-- `tpcc.delivered` is how many orders of a district were loaded as delivered.

SELECT 1 AS condition, count(*) AS broken FROM (
    SELECT w_id FROM warehouse JOIN district ON d_w_id = w_id
    GROUP BY w_id, w_ytd HAVING w_ytd <> sum(d_ytd)) AS c
UNION ALL
SELECT 2, count(*) FROM district
    LEFT JOIN (SELECT o_w_id, o_d_id, max(o_id) AS last FROM orders GROUP BY 1, 2) AS o
        ON o_w_id = d_w_id AND o_d_id = d_id
    LEFT JOIN (SELECT no_w_id, no_d_id, max(no_o_id) AS last FROM new_order GROUP BY 1, 2) AS n
        ON no_w_id = d_w_id AND no_d_id = d_id
    WHERE d_next_o_id - 1 IS DISTINCT FROM o.last OR d_next_o_id - 1 <> n.last
UNION ALL
SELECT 3, count(*) FROM (
    SELECT no_w_id FROM new_order GROUP BY no_w_id, no_d_id
    HAVING max(no_o_id) - min(no_o_id) + 1 <> count(*)) AS c
UNION ALL
SELECT 4, count(*) FROM
    (SELECT o_w_id, o_d_id, sum(o_ol_cnt) AS lines FROM orders GROUP BY 1, 2) AS o
    FULL JOIN (SELECT ol_w_id, ol_d_id, count(*) AS lines FROM order_line GROUP BY 1, 2) AS l
        ON ol_w_id = o_w_id AND ol_d_id = o_d_id
    WHERE o.lines IS DISTINCT FROM l.lines
UNION ALL
SELECT 5, count(*) FROM orders
    FULL JOIN new_order ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id
    WHERE o_id IS NULL OR (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL)
UNION ALL
SELECT 6, count(*) FROM orders
    FULL JOIN (SELECT ol_w_id, ol_d_id, ol_o_id, count(*) AS lines FROM order_line GROUP BY 1, 2, 3) AS l
        ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
    WHERE o_ol_cnt IS DISTINCT FROM lines
UNION ALL
SELECT 7, count(*) FROM order_line
    LEFT JOIN orders ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id
    WHERE o_id IS NULL OR (ol_delivery_d IS NULL) <> (o_carrier_id IS NULL)
UNION ALL
SELECT 8, count(*) FROM warehouse
    LEFT JOIN (SELECT h_w_id, sum(h_amount) AS paid FROM history GROUP BY 1) AS h ON h_w_id = w_id
    WHERE w_ytd IS DISTINCT FROM paid
UNION ALL
SELECT 9, count(*) FROM district
    LEFT JOIN (SELECT h_w_id, h_d_id, sum(h_amount) AS paid FROM history GROUP BY 1, 2) AS h
        ON h_w_id = d_w_id AND h_d_id = d_id
    WHERE d_ytd IS DISTINCT FROM paid
UNION ALL
SELECT 10, count(*) FROM customer
    LEFT JOIN (
        SELECT o_w_id, o_d_id, o_c_id, sum(ol_amount) AS got FROM orders
        JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
        WHERE ol_delivery_d IS NOT NULL GROUP BY 1, 2, 3) AS o
        ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id
    LEFT JOIN (
        SELECT h_c_w_id, h_c_d_id, h_c_id, sum(h_amount) AS paid FROM history GROUP BY 1, 2, 3) AS h
        ON h_c_w_id = c_w_id AND h_c_d_id = c_d_id AND h_c_id = c_id
    WHERE c_balance <> coalesce(got, 0) - coalesce(paid, 0)
UNION ALL
SELECT 11, count(*) FROM
    (SELECT o_w_id, o_d_id, count(*) AS placed FROM orders GROUP BY 1, 2) AS o
    LEFT JOIN (SELECT no_w_id, no_d_id, count(*) AS waiting FROM new_order GROUP BY 1, 2) AS n
        ON no_w_id = o_w_id AND no_d_id = o_d_id
    JOIN (SELECT c_w_id, c_d_id, sum(c_delivery_cnt) AS delivered FROM customer GROUP BY 1, 2) AS c
        ON c_w_id = o_w_id AND c_d_id = o_d_id
    WHERE placed - coalesce(waiting, 0) <> delivered + current_setting('tpcc.delivered')::int
UNION ALL
SELECT 12, count(*) FROM customer
    LEFT JOIN (
        SELECT o_w_id, o_d_id, o_c_id, sum(ol_amount) AS got FROM orders
        JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
        WHERE ol_delivery_d IS NOT NULL GROUP BY 1, 2, 3) AS o
        ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id
    WHERE c_balance + c_ytd_payment <> coalesce(got, 0)
ORDER BY 1;
