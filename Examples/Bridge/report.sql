-- What a manager asks for: plain SQL over what phones have written.
SELECT s.city, count(*) AS visits, sum(v.minutes) AS minutes,
  count(*) FILTER (WHERE 'yearly' = ANY (v.tags)) AS yearly,
  coalesce(max(f.worst), 0) AS worst
FROM "Visit" v JOIN "Site" s ON s._id = v.site
LEFT JOIN LATERAL (
  SELECT max((finding->>'severity')::int) AS worst FROM jsonb_array_elements(v.findings) finding) f ON true
GROUP BY s.city ORDER BY s.city;
